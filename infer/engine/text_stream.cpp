#include "infer/engine/text_stream.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {

void TextPiece::append(TextPiece more) {
  text += more.text;
  tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
  ended = more.ended;
}

Notifier::Notifier() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  core::require(fd_ >= 0, "cannot create an event descriptor; too many files are open");
}

Notifier::~Notifier() { close(fd_); }

void Notifier::notify() {
  if (notified_.exchange(true)) return;
  const uint64_t one = 1;
  static_cast<void>(!write(fd_, &one, sizeof one));
}

void Notifier::clear() {
  uint64_t count = 0;
  static_cast<void>(!read(fd_, &count, sizeof count));
  notified_ = false;
}

std::shared_ptr<TextStream> TextStream::submit(const std::shared_ptr<AsyncEngine>& engine,
                                               std::vector<Request> requests, bool pieces, EventQueueOptions options) {
  const std::shared_ptr<TextStream> stream(new TextStream(*engine, std::move(options)));
  size_t first = 0;
  for (Request& request : requests) {
    stream->add_callbacks(request, first, pieces);
    first += static_cast<size_t>(std::max<int64_t>(request.options.n, 1));
  }
  stream->results_.resize(first, {.finish_reason = FinishReason::Interrupted});  // result of requests that never run
  stream->EventQueue::submit(std::move(requests));
  return {stream.get(), [stream, engine](TextStream*) { stream->cancel(); }};
}

// Sets callbacks that store results_ and, if `pieces` is true, add events. They may capture `this`, because the engine
// keeps the stream alive while a request runs. `first` is the index of the request's first choice in results_.
void TextStream::add_callbacks(Request& request, size_t first, bool pieces) {
  request.on_end = [this, first, pieces](size_t choice, const GenerateResult& result) {
    {
      const std::lock_guard lock(mutex_);
      results_[first + choice] = result;
    }
    if (pieces) event(first + choice, true).ended = true;
  };
  if (!pieces) return;
  request.on_text = [this, first](size_t choice, std::string_view text) { event(first + choice).text += text; };
  request.on_token = [this, first](size_t choice, int32_t token, std::span<const float>) {
    event(first + choice).tokens.push_back(token);
  };
}

std::vector<GenerateResult> TextStream::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

}  // namespace folio::infer
