# The inner loops are one source, compiled once for each instruction set; choose.c picks at import.
set(folder "${CMAKE_CURRENT_SOURCE_DIR}/miopyx/host")

function(miopyx_variant name)
  add_library(miopyx_kernels_${name} OBJECT "${folder}/gemm_f64.c")
  target_compile_definitions(miopyx_kernels_${name} PRIVATE MX_VARIANT=${name})
  target_compile_options(miopyx_kernels_${name} PRIVATE ${ARGN})
  target_include_directories(miopyx_kernels_${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}"
                             "${CMAKE_CURRENT_SOURCE_DIR}/miopyx/kernels")
  target_sources(miopyx PRIVATE $<TARGET_OBJECTS:miopyx_kernels_${name}>)
endfunction()

# Asked of the compiler, which may build for another machine without CMake's being told.
include(CheckCSourceCompiles)
check_c_source_compiles([[
#if !defined __x86_64__ || defined __ILP32__
#error
#endif
int main(void) { return 0; }
]] for_x86_64)
if(for_x86_64)
  # -O3 takes three times as long to compile, and what runs on each machine of the last ten years is worth it.  What gains
  # by being unrolled says so in the source; other loops would fill a fourth of the library.  Clang's plain loops are as fast
  # by -Os and two thirds as long; AVX2's are not.
  miopyx_variant(baseline -O2 -fno-unroll-loops "$<$<C_COMPILER_ID:Clang>:SHELL:-Xclang -Os>")
  miopyx_variant(avx2 -O3 -fno-unroll-loops -mavx2 -mfma -mf16c)
  miopyx_variant(avx512 -O3 -fno-unroll-loops -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c -mprefer-vector-width=512)
  target_compile_definitions(miopyx PRIVATE MX_X86_VARIANTS)
else()
  miopyx_variant(baseline -O3 -fno-unroll-loops)
endif()
target_sources(miopyx PRIVATE "${folder}/choose.c" "${folder}/pool.c")
