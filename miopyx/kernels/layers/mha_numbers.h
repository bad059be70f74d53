/* The launch before attention's, for CPUs and GPUs: numbers in memory come together in the workspace, those that are not
 * given as 1 (the probability as 0), and the largest numbers begin at 0.  Bit i of `given`: number i is given. */
#define NUMBER_OF(i) __global const float *n##i, long n##i##_offset
#define TAKE_NUMBER(i, rest) numbers[i] = given >> (i) & 1 ? n##i[n##i##_offset] : (rest)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void mha_numbers(
    NUMBER_OF(0), NUMBER_OF(1), NUMBER_OF(2), NUMBER_OF(3), NUMBER_OF(4), NUMBER_OF(5), __global const ulong *seed,
    long seed_offset, __global const ulong *offset, long offset_offset, NUMBER_OF(8), NUMBER_OF(9), NUMBER_OF(10),
    NUMBER_OF(11), NUMBER_OF(12), NUMBER_OF(13), NUMBER_OF(14), __global float *most0, long most0_offset,
    __global float *most1, long most1_offset, __global float *most2, long most2_offset, __global float *most3,
    long most3_offset, __global uchar *table, long table_offset, const long given)
{
    __global float *numbers = (__global float *)(table + table_offset);
    __global ulong *whole = (__global ulong *)(table + table_offset);
    TAKE_NUMBER(0, 1);
    TAKE_NUMBER(1, 1);
    TAKE_NUMBER(2, 1);
    TAKE_NUMBER(3, 1);
    TAKE_NUMBER(4, 1);
    TAKE_NUMBER(5, 0);
    TAKE_NUMBER(8, 1);
    TAKE_NUMBER(9, 1);
    TAKE_NUMBER(10, 1);
    TAKE_NUMBER(11, 1);
    TAKE_NUMBER(12, 1);
    TAKE_NUMBER(13, 1);
    TAKE_NUMBER(14, 1);
    whole[SEED_AT] = given >> 6 & 1 ? seed[seed_offset] : 0;
    whole[OFFSET_AT] = given >> 7 & 1 ? offset[offset_offset] : 0;
    if (given >> 15 & 1)
        most0[most0_offset] = 0;
    if (given >> 16 & 1)
        most1[most1_offset] = 0;
    if (given >> 17 & 1)
        most2[most2_offset] = 0;
    if (given >> 18 & 1)
        most3[most3_offset] = 0;
}
