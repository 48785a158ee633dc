#include "src/process.h"

#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "core/error.h"

namespace folio::python {
namespace {

// The three variables are modified only with the GIL held, or in a forked child, which has one thread.
size_t n_without_gil = 0;
bool ending = false;
unsigned forks = 0;

}  // namespace

WithoutGil::WithoutGil() {
  core::require(!ending, "the interpreter is shutting down");
  ++n_without_gil;
  thread_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(thread_);
  --n_without_gil;
}

void wait_for_threads() {
  ending = true;
  while (n_without_gil > 0) {
    const nb::gil_scoped_release release;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool is_ending() { return ending; }

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] {
    ++forks;
    n_without_gil = 0;  // threads without the GIL exist only in the parent
  });
}

unsigned n_forks() { return forks; }

void fail_after_fork() {
  core::fail(
      "this process was forked after the model was opened, and the engine's threads run only in the parent; open the "
      "model in each process, or start processes by spawn");
}

}  // namespace folio::python
