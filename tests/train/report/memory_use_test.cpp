#include "train/report/memory_use.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <optional>
#include <thread>
#include <utility>

namespace folio::train {
namespace {

TEST(MemoryUse, CountsTensorsOfAllThreads) {
  std::optional<MemoryUse> use(std::in_place);
  torch::Tensor kept = torch::zeros({1000}, torch::kDouble);
  EXPECT_EQ(use->bytes(), 8000);
  torch::Tensor moved = torch::zeros({500}, torch::kFloat);
  std::thread([freed = std::move(moved)]() mutable { freed.reset(); }).join();
  EXPECT_EQ(use->bytes(), 8000);
  EXPECT_EQ(use->peak(), 10000);
  use->reset_peak();
  EXPECT_EQ(use->peak(), 8000);
  void* memory = c10::GetCPUAllocator()->raw_allocate(100);  // as in oneDNN's products
  EXPECT_EQ(use->bytes(), 8100);
  c10::GetCPUAllocator()->raw_deallocate(memory);
  EXPECT_EQ(use->bytes(), 8000);
  use.reset();
  EXPECT_EQ(kept.sum().item<double>(), 0.0);  // the tensor outlives the MemoryUse object
}

}  // namespace
}  // namespace folio::train
