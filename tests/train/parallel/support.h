// Runs ranks as threads of one process that connect through a shared store. Also makes meshes and batches for tests.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "core/random.h"
#include "data/batches.h"
#include "train/config/train_config.h"
#include "train/parallel/world.h"

namespace folio::train::parallel::test {

/// Returns a mesh with the given numbers of ranks along some axes, and one rank along the others.
inline MeshShape mesh_of(std::initializer_list<std::pair<Axis, int64_t>> sizes) {
  MeshShape shape;
  for (const auto& [axis, n] : sizes) shape[axis] = n;
  return shape;
}

/// Returns random tokens. With `some_ignored`, a fifth of the targets is ignored, so that ranks have different numbers
/// of counted targets. If c.across_documents is Mask, two sequences are packed into each row.
inline data::Batch random_batch(const TrainConfig& c, uint64_t seed, bool some_ignored) {
  data::Batch batch{.rows = c.batch_size, .length = c.window, .inputs = {}, .targets = {}};
  const auto vocab = static_cast<uint64_t>(c.model.vocab_size);
  for (uint64_t i = 0; i < static_cast<uint64_t>(c.batch_size * c.window); ++i) {
    batch.inputs.push_back(static_cast<int32_t>(core::random_below(seed, 3 * i, vocab)));
    const bool ignored = some_ignored && core::random_below(seed, 3 * i + 1, 5) == 0;
    batch.targets.push_back(ignored ? data::Batch::kIgnored
                                    : static_cast<int32_t>(core::random_below(seed, 3 * i + 2, vocab)));
    const int64_t position = static_cast<int64_t>(i) % c.window, second = c.window / 3;
    if (c.across_documents == AcrossDocuments::Mask)
      batch.starts.push_back(static_cast<int32_t>(position < second ? 0 : second));
  }
  return batch;
}

/// Calls body(world) on a thread for each rank. Rethrows the exception of the lowest rank that throws.
inline void on_ranks(const MeshShape& shape, const std::function<void(World&)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(shape.n_ranks()));
  // A world is kept until all ranks end, since its destructor closes connections that others may still be opening.
  std::vector<std::unique_ptr<World>> worlds(errors.size());
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < shape.n_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<World>& world = worlds[static_cast<size_t>(rank)];
      try {
        world = std::make_unique<World>(store, shape, rank, std::chrono::seconds(60));
        body(*world);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
        world.reset();  // closes its connections, so that the other ranks fail instead of waiting
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace folio::train::parallel::test
