// Stops this process while it receives a message, by replacing the recv() that Gloo calls.
#pragma once

#include <cstddef>

namespace folio::infer::test {

/// Sends SIGSTOP to this process as soon as it has received `n` more bytes.
void stop_after_bytes(size_t n);

}  // namespace folio::infer::test
