#include "tests/infer/cuda/host/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"
#include "tests/infer/cuda/host/places.h"

namespace folio::infer::gpu::host {
namespace {

constexpr size_t kRedZone = 256;
constexpr unsigned char kRed = 0xA5;
constexpr std::align_val_t kAlignment{256};

}  // namespace

SharedMemory::SharedMemory() : arena_(static_cast<unsigned char*>(::operator new(kArenaBytes, kAlignment))) {
  std::memset(arena_, kRed, kArenaBytes);
}

SharedMemory::~SharedMemory() { ::operator delete(arena_, kAlignment); }

void SharedMemory::begin_block(size_t dynamic_bytes, size_t limit) {
  // Refill the memory of the previous block with red-zone bytes.
  std::memset(arena_, kRed, used_);
  arrays_.clear();
  used_ = kRedZone;
  asked_ = 0;
  limit_ = limit;
  add(dynamic_bytes, true, {});
}

void* SharedMemory::array(size_t element_bytes, size_t count, const std::source_location& at) {
  const size_t bytes = element_bytes * count;
  for (size_t i = 1; i < arrays_.size(); ++i) {
    if (same_place(arrays_[i].at, at) && arrays_[i].bytes == bytes) return arena_ + arrays_[i].offset;
  }
  return add(bytes, element_bytes % 16 == 0, at);
}

void* SharedMemory::add(size_t bytes, bool wide, const std::source_location& at) {
  asked_ += bytes;
  core::require(asked_ <= limit_, "a block asks for {} bytes of shared memory, but has {}: take smaller tiles", asked_,
                limit_);
  // Arrays of small elements are deliberately not aligned to 16 bytes, since CUDA doesn't guarantee it.
  const size_t offset = wide ? used_ : used_ + 8;
  const size_t end = (offset + bytes + kRedZone + 15) / 16 * 16;
  core::require(end <= kArenaBytes, "a block has too many shared arrays for the host emulation: join some");
  std::memset(arena_ + offset, 0xFF, bytes);
  arrays_.push_back({offset, bytes, at});
  used_ = end;
  return arena_ + offset;
}

void SharedMemory::end_block() const {
  size_t begin = 0;
  for (size_t i = 0; i <= arrays_.size(); ++i) {
    const size_t end = i < arrays_.size() ? arrays_[i].offset : used_;
    for (const auto* p = arena_ + begin; p != arena_ + end; ++p) {
      if (*p == kRed) continue;
      core::fail("a block wrote outside of its shared arrays: {}: correct the index", describe(p));
    }
    if (i < arrays_.size()) begin = end + arrays_[i].bytes;
  }
}

bool SharedMemory::inside(const void* address, size_t bytes) const {
  const auto offset = static_cast<size_t>(static_cast<const unsigned char*>(address) - arena_);
  return std::any_of(arrays_.begin(), arrays_.end(),
                     [&](const Array& a) { return offset >= a.offset && offset + bytes <= a.offset + a.bytes; });
}

std::string SharedMemory::describe(const void* address) const {
  const auto offset = static_cast<size_t>(static_cast<const unsigned char*>(address) - arena_);
  size_t i = arrays_.size() - 1;
  while (i > 0 && arrays_[i].offset > offset) --i;
  const Array& array = arrays_[i];
  const std::string name =
      i == 0 ? "the dynamic shared memory" : core::message("the shared array of {}", place(array.at));
  if (offset < array.offset) return core::message("{} bytes before {}", array.offset - offset, name);
  return core::message("byte {} of {}, which has {}", offset - array.offset, name, array.bytes);
}

}  // namespace folio::infer::gpu::host
