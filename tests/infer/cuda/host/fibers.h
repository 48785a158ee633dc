// Fibers: stacks that one host thread switches between, on Boost.Context's fcontext. A switch costs a few nanoseconds,
// and AddressSanitizer is notified of it.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define FOLIO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOLIO_ASAN 1
#endif
#endif
#ifdef FOLIO_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace folio::infer::gpu::host {

/// A stack and its saved context. A default-constructed fiber represents the caller's stack.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;  ///< AddressSanitizer's state
};

/// Saves the context of the fiber that switched to `here`. Must be called first by code that runs after a switch.
inline void arrive([[maybe_unused]] Fiber& here, boost::context::detail::transfer_t from) {
  auto& other = *static_cast<Fiber*>(from.data);
  other.context = from.fctx;
#ifdef FOLIO_ASAN
  __sanitizer_finish_switch_fiber(here.fake_stack, &other.bottom, &other.bytes);
#endif
}

/// Switches to fiber `to`. Returns when a fiber switches back to `from`.
inline void switch_fibers(Fiber& from, Fiber& to) {
#ifdef FOLIO_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  arrive(from, boost::context::detail::jump_fcontext(to.context, &from));
}

/// A pool of reusable stacks.
class FiberPool {
 public:
  /// Creates an empty pool. A fiber runs `body`, which must end by switching to another fiber, not return.
  explicit FiberPool(void (*body)(boost::context::detail::transfer_t)) : body_(body) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  /// Returns an unused fiber. Throws core::Error if there is no memory for another stack.
  [[nodiscard]] Fiber* take() {
    if (free_.empty()) return make();
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
  }
  void give_back(Fiber* fiber) { free_.push_back(fiber); }

 private:
  [[nodiscard]] Fiber* make();

  void (*body_)(boost::context::detail::transfer_t);
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;
};

}  // namespace folio::infer::gpu::host
