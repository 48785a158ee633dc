#include "train/parallel/shared_rooms.h"

#include <torch/utils.h>

#include <string>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// The same for all ranks: whether all of them can.
bool all_can(bool can, Group& group) {
  Tensor not_all = torch::full({1}, can ? 0 : 1, torch::kInt64);
  group.largest(not_all);
  return not_all.item<int64_t>() == 0;
}

// A name that nobody needs anymore, however this ends.
struct Name {
  std::string text = core::SharedMemory::new_name();  // each has the same length
  bool is_mine = false;
  ~Name() {
    if (is_mine) core::SharedMemory::unlink(text);
  }
};

}  // namespace

std::unique_ptr<SharedRooms> SharedRooms::open(Group& group, int64_t n, torch::ScalarType type) {
  if (group.size() == 1 || !all_can(core::ranks_share_memory(), group)) return nullptr;
  const size_t bytes = static_cast<size_t>(group.size() * n) * torch::elementSize(type);
  Name name;
  core::SharedMemory memory;
  if (group.index() == 0) {
    memory = core::SharedMemory::create(name.text, bytes);
    name.is_mine = true;
  }
  // The first rank tells the others its name. Who can't open it is on another host, or in another container.
  group.broadcast(torch::from_blob(name.text.data(), {static_cast<int64_t>(name.text.size())}, torch::kByte), 0);
  if (group.index() != 0) memory = core::SharedMemory::open(name.text, bytes);
  if (!all_can(static_cast<bool>(memory), group)) return nullptr;
  return std::unique_ptr<SharedRooms>(new SharedRooms(std::move(memory), group.size(), n, type));
}

SharedRooms::SharedRooms(core::SharedMemory memory, int64_t n_ranks, int64_t n, torch::ScalarType type)
    : memory_(std::move(memory)) {
  const int64_t bytes = n * static_cast<int64_t>(torch::elementSize(type));
  for (int64_t i = 0; i < n_ranks; ++i) rooms_.push_back(torch::from_blob(memory_.data() + i * bytes, {n}, type));
}

}  // namespace folio::train::parallel
