// AVX-512 VNNI kernels: quantize and matmul_groups, with 64 byte products per vpdpbusd. All other kernels are those of
// avx512.cpp. Later headers use the types of earlier ones, so the include order is fixed:
// clang-format off
#include "infer/cpu/ints_avx512.h"
#include "infer/cpu/groups_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512vnni_kernels() {
  static const Kernels table = [] {
    Kernels k = avx512_kernels();
    k.isa = core::Isa::Avx512Vnni;
    k.quantize = quantize;
    k.matmul_groups = matmul_groups;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
