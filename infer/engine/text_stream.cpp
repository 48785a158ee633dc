#include "infer/engine/text_stream.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenPieces{2};

size_t n_choices(const Request& request) { return static_cast<size_t>(std::max<int64_t>(request.options.n, 1)); }

}  // namespace

Notifier::Notifier() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  core::require(fd_ >= 0, "the system gives no descriptor to wait for texts with; too many files are open");
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

struct TextStream::State {
  struct Waiting {
    Request request;
    size_t first_choice;
  };
  // The engine's thread's alone.
  std::vector<TextPiece> coming{};  ///< by choice
  std::vector<size_t> choices{};    ///< that have something there
  bool is_touched = false;
  bool is_urgent = true;  ///< it begins, or something ended
  Clock::time_point handed_over{};
  std::shared_ptr<Notifier> notifier{};

  std::mutex mutex{};  ///< of what follows
  std::condition_variable came{};
  std::vector<TextPiece> news{};
  std::vector<GenerateResult> results{};
  std::exception_ptr error{};
  std::deque<Waiting> later{};  ///< requests that the engine has not yet
  std::set<RequestId> ids{};    ///< of those that it has
  size_t n_running = 0;         ///< requests that have not ended, with those that wait
  bool cancelled = false;
  size_t n_to_hand = 0;  ///< requests whose end was not handed over

  TextPiece& piece(size_t choice) {
    TextPiece& p = coming[choice];
    if (p.tokens.empty() && p.text.empty() && !p.ended) choices.push_back(choice);
    return p;
  }
  void notify() {
    came.notify_one();
    if (notifier) notifier->notify();
  }
  /// Those that the engine has not yet end here.
  void drop_later() {
    n_running -= later.size();
    for (const Waiting& waiting : later) {
      for (size_t i = 0; i < n_choices(waiting.request); ++i) {
        results[waiting.first_choice + i].finish_reason = FinishReason::Interrupted;
      }
    }
    later.clear();
  }
  /// What a caller did not fetch in time becomes one piece.
  void hand_over(TextPiece piece) {
    const auto same = std::ranges::find(news, piece.choice, &TextPiece::choice);
    if (same == news.end()) return news.push_back(std::move(piece));
    same->text += piece.text;
    same->tokens.insert(same->tokens.end(), piece.tokens.begin(), piece.tokens.end());
    same->ended = piece.ended;
  }
};

TextStream::~TextStream() { cancel(); }

std::vector<TextPiece> TextStream::next(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->came.wait_for(lock, at_most,
                        [this] { return !state_->news.empty() || state_->error || state_->n_running == 0; });
  if (!state_->news.empty() || !state_->error) return std::exchange(state_->news, {});
  const std::exception_ptr error = std::exchange(state_->error, nullptr);
  lock.unlock();
  cancel();
  std::rethrow_exception(error);
}

bool TextStream::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->n_running == 0 && state_->news.empty() && !state_->error;
}

std::vector<GenerateResult> TextStream::take_results() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->results, {});
}

void TextStream::cancel() {
  std::set<RequestId> ids;
  {
    const std::lock_guard lock(state_->mutex);
    state_->cancelled = true;
    state_->drop_later();
    ids = state_->ids;
  }
  state_->notify();
  for (const RequestId id : ids) engine_->cancel(id);
}

std::unique_ptr<TextStream> TextStreams::submit(const std::shared_ptr<AsyncEngine>& engine,
                                                std::vector<Request> requests, bool pieces,
                                                std::shared_ptr<Notifier> notifier) {
  const auto state = std::make_shared<State>();
  size_t first = 0;
  for (Request& request : requests) {
    const size_t n = n_choices(request);
    if (pieces) tell_pieces(state, first, request);
    state->later.push_back({.request = std::move(request), .first_choice = first});
    first += n;
  }
  state->coming.resize(first);
  for (size_t i = 0; i < first; ++i) state->coming[i].choice = i;
  state->results.resize(first);
  state->n_running = requests.size();
  state->notifier = std::move(notifier);
  for (size_t i = 0; i < std::min(requests.size(), n_at_once_); ++i) submit_next(*engine, state);
  return std::unique_ptr<TextStream>(new TextStream(engine, state));
}

// Called from the engine's thread.
void TextStreams::tell_pieces(const std::shared_ptr<State>& state, size_t first, Request& request) {
  request.on_text = [this, state, first](size_t choice, std::string_view text) {
    state->piece(first + choice).text += text;
    touch(state);
  };
  request.on_token = [this, state, first](size_t choice, int32_t token, std::span<const float>) {
    state->piece(first + choice).tokens.push_back(token);
    touch(state);
  };
  request.on_end = [this, state, first](size_t choice, const GenerateResult&) {
    state->piece(first + choice).ended = true;
    state->is_urgent = true;
    touch(state);
  };
}

void TextStreams::submit_next(AsyncEngine& engine, const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  if (state->later.empty()) return;
  State::Waiting next = std::move(state->later.front());
  state->later.pop_front();
  lock.unlock();
  struct Own {
    RequestId id = -1;
    bool ended = false;
  };
  const auto own = std::make_shared<Own>();
  const RequestId id =
      engine.submit(std::move(next.request), [this, &engine, state, own, first = next.first_choice](Outcome outcome) {
        std::unique_lock ending(state->mutex);
        own->ended = true;
        state->ids.erase(own->id);
        if (outcome.error) {  // perhaps on the thread that submits: the engine has stopped
          if (!state->error) state->error = outcome.error;
          --state->n_running;
          state->drop_later();
          return state->notify();
        }
        std::ranges::move(outcome.results, state->results.begin() + static_cast<ptrdiff_t>(first));
        ++state->n_to_hand;
        ending.unlock();
        state->is_urgent = true;
        touch(state);
        submit_next(engine, state);
      });
  lock.lock();
  own->id = id;
  if (!own->ended) state->ids.insert(id);
  if (state->cancelled) engine.cancel(id);
}

void TextStreams::touch(const std::shared_ptr<State>& state) {
  if (!std::exchange(state->is_touched, true)) touched_.push_back(state);
}

void TextStreams::hand_over() {
  if (touched_.empty()) return;
  const auto now = Clock::now();
  std::erase_if(touched_, [&](const std::shared_ptr<State>& state) {
    if (!state->is_urgent && now - state->handed_over < kBetweenPieces) return false;
    {
      const std::lock_guard lock(state->mutex);
      for (const size_t choice : state->choices) {
        state->hand_over(std::exchange(state->coming[choice], {.choice = choice}));
      }
      state->n_running -= std::exchange(state->n_to_hand, 0);
    }
    state->choices.clear();
    state->notify();
    state->is_touched = false;
    state->is_urgent = false;
    state->handed_over = now;
    return true;
  });
}

}  // namespace folio::infer
