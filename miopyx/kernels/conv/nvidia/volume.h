/* How kernels with three spatial axes read mx_nv_volume: AXES is 2 or 3. */
#ifndef AXES
#define AXES 2
#endif
#if AXES == 3
/* What a member of mx_nv_volume.conv holds along the depth and along the rows, and their product. */
#define MX_DEEP(member) ((member) >> 16)
#define MX_ROW(member) ((int)(short)(member))
#define MX_BOTH(member) (MX_DEEP(member) * MX_ROW(member))
#else
#define MX_BOTH(member) (member)
#endif
