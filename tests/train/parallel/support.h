// Ranks as threads of one process, which meet in a store that they share.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "train/parallel/world.h"

namespace folio::train::parallel::test {

/// Calls body(world) on a thread for each rank. If some throw, throws what the rank with the lowest number did.
inline void on_ranks(const MeshShape& shape, const std::function<void(World&)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(shape.n_ranks()));
  // A rank that ends closes its connections, and another one may not have made all of its own yet.
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
        world.reset();  // the others end, too
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace folio::train::parallel::test
