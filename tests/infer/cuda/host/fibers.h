// Fibers: stacks that one thread of the host switches between, on Boost.Context's fcontext. A switch costs a few
// nanoseconds, and AddressSanitizer is told of it.
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

/// A stack, and where its code stands while another one runs. A default one is the stack of the caller.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;  ///< AddressSanitizer's
};

/// To be called first by what comes to run after a switch: keeps where the other fiber stands.
inline void arrive([[maybe_unused]] Fiber& here, boost::context::detail::transfer_t from) {
  auto& other = *static_cast<Fiber*>(from.data);
  other.context = from.fctx;
#ifdef FOLIO_ASAN
  __sanitizer_finish_switch_fiber(here.fake_stack, &other.bottom, &other.bytes);
#endif
}

/// Runs `to` on; returns when something switches back to `from`.
inline void switch_fibers(Fiber& from, Fiber& to) {
#ifdef FOLIO_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  arrive(from, boost::context::detail::jump_fcontext(to.context, &from));
}

/// Stacks that are used again and again.
class FiberPool {
 public:
  /// A fiber runs `body` the first time that it is switched to. It never returns: it switches away.
  explicit FiberPool(void (*body)(boost::context::detail::transfer_t)) : body_(body) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  /// One that nobody uses. Throws core::Error if there is no memory for another stack.
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
