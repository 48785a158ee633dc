// Declares control of a replacement of recv(), which Gloo calls, that can stop the process in the middle of a message.
#pragma once

#include <cstddef>

namespace folio::infer::test {

/// Sends SIGSTOP to this process as soon as it has received `n` more bytes.
void stop_after_bytes(size_t n);

}  // namespace folio::infer::test
