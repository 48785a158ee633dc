// Fibers: stacks that one host thread switches between. They use Boost.Context's fcontext, so a switch takes
// only nanoseconds.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace folio::infer::gpu::host {

/// A stack and its saved context. A default-constructed fiber represents the caller's stack.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const void* bottom = nullptr;
  size_t bytes = 0;
};

/// Saves the context of the fiber that switched here. Code that runs after a switch must call this first.
inline void arrive(boost::context::detail::transfer_t from) { static_cast<Fiber*>(from.data)->context = from.fctx; }

/// Switches to fiber `to`. Returns when a fiber switches back to `from`.
inline void switch_fibers(Fiber& from, Fiber& to) { arrive(boost::context::detail::jump_fcontext(to.context, &from)); }

/// A pool of reusable stacks.
class FiberPool {
 public:
  /// Creates an empty pool. A fiber runs `body`, which must not return, but end by switching to another fiber.
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
