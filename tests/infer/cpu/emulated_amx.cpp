// The kernels for AMX with emulated tile registers, for machines that have all the rest.
#include "tests/infer/cpu/emulated_tiles.h"

#define amx_kernels emulated_amx_kernels
#include "infer/cpu/amx.cpp"  // NOLINT(bugprone-suspicious-include)
