// The GIL, and the process that an object belongs to. C++ threads never hold a reference to a Python object, so they
// never wait for the GIL; a forked child neither uses nor destroys objects of its parent's threads.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace folio::python {

namespace nb = nanobind;

/// Releases the GIL. At the end of the interpreter, wait_for_threads() waits until all of these are gone: a thread that
/// asked for the GIL later would be ended by Python in the middle of C++. Throws core::Error after that.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

/// Waits until no thread is inside a WithoutGil; from then on none can be made.
void wait_for_threads();
/// Whether wait_for_threads() was called.
[[nodiscard]] bool is_ending();

/// Registers what a forked child must reset. Once, when the module is imported.
void watch_forks();
/// Forks between the import of the module and this process.
[[nodiscard]] unsigned n_forks();
[[noreturn]] void fail_after_fork();

/// An object whose destructor may wait for threads that are in the middle of a step.
template <typename T>
inline constexpr bool kJoinsThreads = false;

/// Owns an object that threads of this process use. In a forked child those threads do not exist and its mutexes may be
/// locked forever, so there it is not usable, and leaks.
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

  /// Throws core::Error in a forked child.
  [[nodiscard]] T& get() const {
    if (is_forked()) fail_after_fork();
    return *value_;
  }
  T& operator*() const { return get(); }
  T* operator->() const { return &get(); }
  /// nullptr in a forked child, for what needs no action there.
  [[nodiscard]] T* here() const { return is_forked() ? nullptr : value_.get(); }
  [[nodiscard]] bool is_forked() const { return n_forks() != forks_; }

 private:
  std::unique_ptr<T> value_;
  unsigned forks_ = n_forks();
};

}  // namespace folio::python
