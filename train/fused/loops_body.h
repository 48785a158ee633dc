// The table of all loops, for the instruction set that this file is compiled for.
#pragma once

#include "train/fused/attention_body.h"
#include "train/fused/cross_entropy_body.h"
#include "train/fused/dropout_body.h"
#include "train/fused/experts_body.h"
#include "train/fused/rms_norm_body.h"
#include "train/fused/rope_body.h"
#include "train/fused/swiglu_body.h"

namespace folio::train::fused {
namespace {

template <typename T>
const Loops<T>& table() {
  static constexpr Loops<T> kLoops{.rms_norm = rms_norm<T>,
                                   .rms_norm_backward = rms_norm_backward<T>,
                                   .add = add<T>,
                                   .drop = drop<T>,
                                   .rotate = rotate<T>,
                                   .swiglu = swiglu<T>,
                                   .swiglu_backward = swiglu_backward<T>,
                                   .expert_hidden = expert_hidden<T>,
                                   .expert_hidden_backward = expert_hidden_backward<T>,
                                   .sum_rows = sum_rows<T>,
                                   .cross_entropy = cross_entropy<T>,
                                   .attention = attention<T>,
                                   .attention_backward = attention_backward<T>};
  return kLoops;
}

}  // namespace
}  // namespace folio::train::fused
