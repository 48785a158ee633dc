#include "infer/cuda/cuda_weights.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/error.h"
#include "core/seconds_since.h"
#include "infer/cuda/pack.h"

namespace folio::infer {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kPieceBytes = size_t{16} << 20U;  // maximum bytes per copy, or one row tile if that is larger

size_t bytes_on_device(const core::TensorSpec& spec, const core::TensorView& tensor) {
  size_t bytes = static_cast<size_t>(spec.elements()) * sizeof(float);
  if (spec.is_matrix()) {
    const std::vector<core::TensorView> matrices = matrices_of(tensor);
    bytes = matrices.size() * packed_layout(matrices.front()).bytes();
  }
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// An upload through two buffers of pinned memory: one is filled while the other is copied.
class CudaWeights::Upload {
 public:
  Upload(gpu::Stream& stream, uint8_t* to, uint64_t total, const Progress& on_progress)
      : stream_(stream), to_(to), total_(total), on_progress_(on_progress) {}

  /// Uploads the next `bytes` bytes, which fill(piece) writes to pinned memory.
  template <typename Fill>
  void send(size_t bytes, Fill fill) {
    Piece& piece = pieces_[next_];
    next_ = 1 - next_;
    piece.arrived.wait();
    if (piece.memory.bytes() < bytes) piece.memory = gpu::PinnedMemory(std::max(bytes, kPieceBytes));
    fill(std::span(piece.memory.as<uint8_t>(), bytes));
    stream_.copy_in(to_ + done_, piece.memory.as<uint8_t>(), bytes);
    piece.arrived.record(stream_);
    done_ += bytes;
    if (on_progress_) on_progress_(done_, total_);
  }
  void align() { done_ = (done_ + kAlignment - 1) / kAlignment * kAlignment; }
  [[nodiscard]] uint8_t* place() const { return to_ + done_; }

 private:
  struct Piece {
    gpu::PinnedMemory memory;
    gpu::Event arrived;
  };

  gpu::Stream& stream_;
  uint8_t* to_;
  uint64_t total_;
  const Progress& on_progress_;
  Piece pieces_[2];
  size_t next_ = 0;
  uint64_t done_ = 0;
};

CudaWeights::CudaWeights(const core::StoredModel& model, LayerRange layers, gpu::Stream& stream, core::ThreadPool& pool,
                         uint64_t free_bytes, const Progress& on_progress)
    : by_role_(load(model, layers, stream, pool, free_bytes, on_progress)) {}

StageWeights CudaWeights::load(const core::StoredModel& model, LayerRange layers, gpu::Stream& stream,
                               core::ThreadPool& pool, uint64_t free_bytes, const Progress& on_progress) {
  const auto start = std::chrono::steady_clock::now();
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (needed_by(layers, manifest[i], model.config))
      report_.weight_bytes += bytes_on_device(manifest[i], model.tensors[i]);
  }
  core::require(report_.weight_bytes <= free_bytes,
                "{}: layers {} to {} need {:.2f} GB on the GPU, which has {:.2f} GB free; keep more layers on the CPU "
                "with --gpu-layers N, or use a file with smaller weights",
                model.path, layers.first, layers.last, static_cast<double>(report_.weight_bytes) / 1e9,
                static_cast<double>(free_bytes) / 1e9);
  memory_ = gpu::DeviceMemory(stream, report_.weight_bytes);
  Upload upload(stream, memory_.as<uint8_t>(), report_.weight_bytes, on_progress);
  StageWeights by_role(model, layers, [&](const core::TensorSpec& spec, const core::TensorView& tensor) {
    Weight weight;
    const WeightId id{static_cast<int32_t>(weights_.size())};
    if (!spec.is_matrix()) {
      weight.vector = reinterpret_cast<const float*>(upload.place());
      const std::vector<float> values = core::to_floats(tensor);
      weight.length = values.size();
      upload.send(values.size() * sizeof(float),
                  [&](std::span<uint8_t> piece) { std::memcpy(piece.data(), values.data(), piece.size()); });
    } else {
      const std::vector<core::TensorView> matrices = matrices_of(tensor);
      weight.matrix = packed_layout(matrices.front());
      weight.matrix.data = upload.place();
      uses_[static_cast<size_t>(weight.matrix.kind)] = true;
      if (spec.is_stack()) stacks_use_[static_cast<size_t>(weight.matrix.kind)] = true;
      const size_t at_once = std::max<size_t>(1, kPieceBytes / weight.matrix.tile_bytes());
      for (const core::TensorView& matrix : matrices) {
        for (size_t tile = 0; tile < weight.matrix.row_tiles(); tile += at_once) {
          const size_t n = std::min(at_once, weight.matrix.row_tiles() - tile);
          upload.send(n * weight.matrix.tile_bytes(),
                      [&](std::span<uint8_t> piece) { pack_tiles(matrix, weight.matrix, tile, piece, pool); });
        }
        report_.repacked_bytes += weight.matrix.bytes();
        model.release(matrix);
        if (spec.is_stack() || &matrix == &matrices.back()) continue;
        weights_.push_back(weight);  // MtpProjection: each of its two matrices gets an id
        weight.matrix.data = upload.place();
      }
    }
    upload.align();
    weights_.push_back(weight);
    return id;
  });
  stream.wait();  // before the pinned buffers are freed
  report_.repack_seconds = core::seconds_since(start);
  return by_role;
}

}  // namespace folio::infer
