// The residual stream's beginning and end: embeddings are fetched, rows that need logits are gathered, a product is added.
// Each is a thread a number. Memory bounds them: 4 bytes read and 4 written for each number of a row.
#include "infer/cuda/kernels.h"
#include "infer/cuda/packed.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kThreads = 256;

__global__ __launch_bounds__(kThreads) void embed_rows(PackedMatrix table, const int32_t* tokens, const int32_t* drawn,
                                                       float* out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= table.k) return;
  int32_t token = tokens[blockIdx.y];
  if (token < 0) token = drawn[-1 - token];
  if (token < 0) token = 0;  // nobody takes the row of a draw that gave no token
  out[blockIdx.y * static_cast<size_t>(table.k) + i] = weight_at(table, static_cast<size_t>(token), i);
}

__global__ __launch_bounds__(kThreads) void gather_rows(const float* from, const float* delta, const int32_t* rows,
                                                        size_t dim, float* to) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= dim) return;
  const size_t at = static_cast<size_t>(rows[blockIdx.y]) * dim + i;
  to[blockIdx.y * dim + i] = delta == nullptr ? from[at] : from[at] + delta[at];
}

__global__ __launch_bounds__(kThreads) void add_numbers(float* x, const float* delta, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) x[i] += delta[i];
}

unsigned blocks_of(size_t n) { return static_cast<unsigned>(ceil_div(n, kThreads)); }

}  // namespace

void embed(Stream& stream, const PackedMatrix& table, const int32_t* tokens, const int32_t* drawn, size_t n_rows,
           float* out) {
  launch(embed_rows, {blocks_of(table.k), static_cast<unsigned>(n_rows)}, {kThreads}, 0, stream, table, tokens, drawn,
         out);
}

void gather(Stream& stream, const float* from, const float* delta, const int32_t* rows, size_t n, size_t dim,
            float* to) {
  launch(gather_rows, {blocks_of(dim), static_cast<unsigned>(n)}, {kThreads}, 0, stream, from, delta, rows, dim, to);
}

void add(Stream& stream, float* x, const float* delta, size_t n) {
  launch(add_numbers, {blocks_of(n)}, {kThreads}, 0, stream, x, delta, n);
}

}  // namespace folio::infer::gpu
