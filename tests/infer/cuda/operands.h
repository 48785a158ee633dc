// Test inputs for products: random matrices of every type, and input rows, as floats and packed for the GPU.
#pragma once

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/pack.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/support.h"

namespace folio::infer::gpu::test {

using core::DType;
using infer::test::random_floats;

inline constexpr std::array kTypes{DType::F32,  DType::F16,  DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1,
                                   DType::Q5_0, DType::Q5_1, DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::MXFP4};

inline bool in_blocks(DType type) { return core::quant_info(type) != nullptr; }

// A random matrix (n_out, k) in three forms: as stored in a file, as floats, and packed for the GPU.
struct Weights {
  Weights(Stream& stream, DType type, size_t n_out, size_t k, uint64_t seed = 1) {
    if (in_blocks(type)) {
      bytes = infer::test::random_blocks(type, n_out * k / core::info(type).block_elements, seed, 1.0);
    } else {
      for (const float x : random_floats(n_out * k, seed)) {
        const uint32_t f32 = std::bit_cast<uint32_t>(x);
        const uint32_t bits = type == DType::F32   ? f32
                              : type == DType::F16 ? core::float_to_f16(x)
                                                   : core::float_to_bf16(x);
        const auto* from = reinterpret_cast<const std::byte*>(&bits);
        bytes.insert(bytes.end(), from, from + core::info(type).block_bytes);
      }
    }
    tensor = {
        .name = "w", .type = type, .shape = {static_cast<int64_t>(n_out), static_cast<int64_t>(k)}, .bytes = bytes};
    numbers = core::to_floats(tensor);
    matrix = packed_layout(tensor);
    std::vector<uint8_t> tiles(matrix.bytes(), 0xFF);
    core::ThreadPool pool(1);
    pack_tiles(tensor, matrix, 0, tiles, pool);
    memory = on_device(stream, tiles);
    matrix.data = memory.as<uint8_t>();
  }

  std::vector<std::byte> bytes;
  core::TensorView tensor;
  std::vector<float> numbers;  ///< values of the matrix (n_out, k)
  DeviceMemory memory;
  PackedMatrix matrix;
};

/// Device memory for packed input rows.
struct Packing {
  Packing(Stream& stream, size_t n_rows, size_t k, Kind kind) {
    view = {.n_rows = static_cast<uint32_t>(n_rows), .k = static_cast<uint32_t>(k), .kind = kind};
    data = unwritten(stream, view.bytes());
    scales = unwritten(stream, (n_rows + kTileColumns) * sizeof(float));
    view.data = data.as<uint8_t>();
    view.row_scales = scales.as<float>();
  }
  DeviceMemory data;
  DeviceMemory scales;
  PackedInputs view;
};

/// Input rows, as floats and packed for a product with weights of type `kind`.
struct Inputs : Packing {
  Inputs(Stream& stream, std::vector<float> x, size_t k, Kind kind)
      : Packing(stream, x.size() / k, k, kind), rows(std::move(x)), floats(on_device(stream, rows)) {
    pack_inputs(stream, floats.as<float>(), view);
  }

  std::vector<float> rows;  ///< (n_rows, k)
  DeviceMemory floats;
};

inline std::vector<float> product(Stream& stream, const Inputs& x, const Weights& w, bool fast_sums = false) {
  const DeviceMemory out = unwritten(stream, size_t{x.view.n_rows} * w.matrix.n_out * sizeof(float));
  const Matmul p{.weight = w.matrix, .out = out.as<float>()};
  multiply(stream, x.view, &p, 1, fast_sums);
  return on_host<float>(stream, out);
}

}  // namespace folio::infer::gpu::test
