// The mistakes, each with the test that must fail first and words of its message:
//     rows_and_columns_swapped: AWholeTileIsCopied: element of row 0 and column 1
//     no_barrier_after: AWholeTileIsCopied: a barrier between them is missing
//     no_barrier_before: TilesFollowOneAnother: a barrier between them is missing
//     no_bounds: OutsideIsZero: correct the index
//     only_rows_checked: OutsideIsZero: correct the index
//     nothing_outside: OutsideIsZero: is NaN, but
//     barrier_in_an_if: OutsideIsZero: all threads of a block go to the same barriers
//     returns_outside: OutsideIsZero: others wait at the barrier
//     down_a_column: AWarpLoadsSideBySide: The number is 32, but
//     pitch_of_32: NoTwoLanesWaitForABank: The number is 31, but
#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "experiments/exercises/mistakes/mistakes.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr unsigned kTile = 32;

enum class Wrong {
  None,
  RowsAndColumnsSwapped,
  NoBarrierAfter,
  NoBarrierBefore,
  NoBounds,
  OnlyRowsChecked,
  NothingOutside,
  BarrierInAnIf,
  ReturnsOutside,
  DownAColumn,
  PitchOf32,
};

template <Wrong kWrong>
constexpr unsigned kPitch = kWrong == Wrong::PitchOf32 ? kTile : kTile + 1;

template <Wrong kWrong>
__device__ void load_tile(const float* matrix, size_t rows, size_t columns, size_t first_row, size_t first_column,
                          float* tile) {
  using enum Wrong;
  const unsigned x = kWrong == DownAColumn ? threadIdx.y : threadIdx.x;
  const unsigned y = kWrong == DownAColumn ? threadIdx.x : threadIdx.y;
  const size_t row = first_row + y;
  const size_t column = first_column + x;
  const bool inside = (row < rows && (column < columns || kWrong == OnlyRowsChecked)) || kWrong == NoBounds;
  float* const to = tile + (kWrong == RowsAndColumnsSwapped ? x * kPitch<kWrong> + y : y * kPitch<kWrong> + x);
  if (kWrong == ReturnsOutside && !inside) return;
  if (kWrong != NoBarrierBefore) __syncthreads();
  if (kWrong == BarrierInAnIf && inside) {
    *to = matrix[row * columns + column];
    __syncthreads();
    return;
  }
  if (inside) *to = matrix[row * columns + column];
  if (!inside && kWrong != NothingOutside) *to = 0.0F;
  if (kWrong != NoBarrierAfter && kWrong != BarrierInAnIf) __syncthreads();
}

template <Wrong kWrong>
__global__ __launch_bounds__(kTile* kTile) void multiply(Linear a) {
  FOLIO_SHARED(float, x, kTile* kPitch<kWrong>);
  FOLIO_SHARED(float, w, kTile* kPitch<kWrong>);
  const size_t first_row = size_t{blockIdx.y} * kTile;
  const size_t first_out = size_t{blockIdx.x} * kTile;
  float sum = 0.0F;
  for (size_t k = 0; k < a.n_in; k += kTile) {
    load_tile<kWrong>(a.x, a.rows, a.n_in, first_row, k, x);
    load_tile<kWrong>(a.w, a.n_out, a.n_in, first_out, k, w);
    for (unsigned j = 0; j < kTile; ++j) {
      sum = fmaf(x[threadIdx.y * kPitch<kWrong> + j], w[threadIdx.x * kPitch<kWrong> + j], sum);
    }
  }
  const size_t row = first_row + threadIdx.y;
  const size_t out = first_out + threadIdx.x;
  if (row < a.rows && out < a.n_out) a.out[row * a.n_out + out] = sum;
}

template <Wrong kWrong>
void run(Stream& stream, const Linear& layer) {
  const auto tiles = [](size_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  launch(multiply<kWrong>, {tiles(layer.n_out), tiles(layer.rows)}, {kTile, kTile}, 0, stream, layer);
}

}  // namespace

void linear(Stream& stream, const Linear& layer) {
  using enum Wrong;
  if (wrong("rows_and_columns_swapped")) return run<RowsAndColumnsSwapped>(stream, layer);
  if (wrong("no_barrier_after")) return run<NoBarrierAfter>(stream, layer);
  if (wrong("no_barrier_before")) return run<NoBarrierBefore>(stream, layer);
  if (wrong("no_bounds")) return run<NoBounds>(stream, layer);
  if (wrong("only_rows_checked")) return run<OnlyRowsChecked>(stream, layer);
  if (wrong("nothing_outside")) return run<NothingOutside>(stream, layer);
  if (wrong("barrier_in_an_if")) return run<BarrierInAnIf>(stream, layer);
  if (wrong("returns_outside")) return run<ReturnsOutside>(stream, layer);
  if (wrong("down_a_column")) return run<DownAColumn>(stream, layer);
  if (wrong("pitch_of_32")) return run<PitchOf32>(stream, layer);
  run<None>(stream, layer);
}

}  // namespace folio::exercises
