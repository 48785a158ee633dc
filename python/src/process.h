// Releases the GIL, and protects objects from use in forked children. C++ threads never hold references to Python
// objects, so they never wait for the GIL. A forked child neither uses nor destroys objects of its parent's threads.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace folio::python {

namespace nb = nanobind;

/// Releases the GIL during its lifetime. At the end of the process, wait_for_threads() waits until no instance is left,
/// because Python would terminate a thread that requests the GIL afterwards, in the middle of C++ code. After that call
/// has begun, the constructor throws core::Error.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

/// Waits until no WithoutGil exists. From the call on, constructing one throws core::Error.
void wait_for_threads();
/// Returns true after the first call of wait_for_threads().
[[nodiscard]] bool is_ending();

/// Registers a handler for forked children, which counts the fork and resets the number of WithoutGil
/// objects. Call it at import.
void watch_forks();
/// Returns the number of forks between the process that imported the module and this one; 0 in the importing process.
[[nodiscard]] unsigned n_forks();
[[noreturn]] void fail_after_fork();

/// True for types whose destructor may wait for threads. Owned then releases the GIL before it destroys the object.
template <typename T>
inline constexpr bool kJoinsThreads = false;

/// Owns an object that threads of this process use. It is unusable in a forked child, and leaked there, since the
/// threads do not exist in the child, and mutexes may be locked forever.
template <typename T>
class Owned {
 public:
  explicit Owned(std::unique_ptr<T> value) : value_(std::move(value)) {}
  ~Owned() {
    if (is_forked()) {
      static_cast<void>(value_.release());
    } else if (kJoinsThreads<T> && !is_ending()) {
      const WithoutGil released;
      value_.reset();
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  /// Returns the object. Throws core::Error in a forked child.
  [[nodiscard]] T& get() const {
    if (is_forked()) fail_after_fork();
    return *value_;
  }
  T& operator*() const { return get(); }
  T* operator->() const { return &get(); }
  /// Returns the object, or null in a forked child, for operations that can be skipped there.
  [[nodiscard]] T* here() const { return is_forked() ? nullptr : value_.get(); }
  [[nodiscard]] bool is_forked() const { return n_forks() != forks_; }

 private:
  std::unique_ptr<T> value_;
  unsigned forks_ = n_forks();
};

}  // namespace folio::python
