// The table of vector kernels. They are written once for a Vec of sixteen floats and compiled for each instruction set,
// in a file (such as avx2.cpp) that includes that set's vec_*.h and ints_*.h first. All of them have internal linkage,
// so that the linker cannot substitute a function compiled for an instruction set that the machine lacks.
#pragma once

#include "infer/cpu/add_low_rank_body.h"
#include "infer/cpu/attention_body.h"
#include "infer/cpu/cache_types_body.h"
#include "infer/cpu/groups_body.h"
#include "infer/cpu/matmul_body.h"
#include "infer/cpu/norms_body.h"
#include "infer/cpu/rope_body.h"
#include "infer/cpu/swiglu_body.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

constexpr Kernels table_of(core::Isa isa) {
  Kernels k{.isa = isa,
            .rms_norm = rms_norm,
            .matmul = {{matmul<float>}, {matmul<F16>}, {matmul<BF16>}, {matmul<Q8>}},
            .matmul_near = {{matmul_near<float>}, {matmul_near<BF16>}, {matmul_near<Q8>}},
            .quantize = quantize,
            .matmul_groups = matmul_groups,
            .rope = rope,
            .attention = {{attention<float>}, {attention<F16>}, {attention<Q8>}},
            .to_f16 = to_f16,
            .to_q8 = to_q8,
            .swiglu = swiglu,
            .geglu = geglu,
            .clamped_swiglu = clamped_swiglu,
            .soft_cap = soft_cap,
            .add_low_rank = {{add_low_rank<float>}, {add_low_rank<BF16>}, {add_low_rank<Q8>}}};
#if defined(__AVX512F__)
  k.packed_inputs = Vec::kPackedInputs;
  k.pack = pack;
  k.matmul_packed = {{matmul_packed<float>}, {matmul_packed<F16>}, {matmul_packed<BF16>}};
#endif
  return k;
}

}  // namespace
}  // namespace folio::infer::kernels
