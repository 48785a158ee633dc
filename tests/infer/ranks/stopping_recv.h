// Stops this process in the middle of a message that it receives: replaces recv(), which Gloo calls.
#pragma once

#include <cstddef>

namespace folio::infer::test {

/// Sends SIGSTOP to this process as soon as it has received `n` more bytes.
void stop_after_bytes(size_t n);

}  // namespace folio::infer::test
