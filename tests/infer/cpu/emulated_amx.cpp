// The AMX kernels with emulated tile registers, for machines with AVX-512 but without AMX.
#include "tests/infer/cpu/emulated_tiles.h"

#define amx_kernels emulated_amx_kernels
#include "infer/cpu/amx.cpp"  // NOLINT(bugprone-suspicious-include)
