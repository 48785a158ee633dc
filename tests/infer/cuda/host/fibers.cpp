#include "tests/infer/cuda/host/fibers.h"

#include <sys/mman.h>

#include "core/error.h"

namespace folio::infer::gpu::host {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = size_t{128} << 10U;

}  // namespace

FiberPool::~FiberPool() {
  for (const auto& fiber : all_) {
    ::munmap(static_cast<unsigned char*>(const_cast<void*>(fiber->bottom)) - kPage, kPage + kStackBytes);
  }
}

Fiber* FiberPool::make() {
  void* memory = ::mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  core::require(memory != MAP_FAILED, "host emulation: no memory for the stack of thread {} of a block: take less",
                all_.size());
  ::mprotect(memory, kPage, PROT_NONE);  // guard page for stack overflows
  auto fiber = std::make_unique<Fiber>();
  fiber->bottom = static_cast<unsigned char*>(memory) + kPage;
  fiber->bytes = kStackBytes;
  // Shifts each stack differently, since stacks with the same offset in a page would compete for the same cache lines.
  const size_t shift = all_.size() % 32 * (kPage / 32);
  auto* top = static_cast<unsigned char*>(memory) + kPage + kStackBytes - shift;
  fiber->context = boost::context::detail::make_fcontext(top, kStackBytes - shift, body_);
  free_.reserve(all_.size() + 1);
  all_.push_back(std::move(fiber));
  return all_.back().get();
}

}  // namespace folio::infer::gpu::host
