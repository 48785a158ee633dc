#include "infer/server/local_service.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "core/error.h"
#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

ServiceOptions for_callers(ServiceOptions options) {
  options.allowed_hosts.emplace_back("localhost");
  options.grace = std::chrono::seconds(0);
  return options;
}

}  // namespace

struct LocalReply::State final : public HttpReply {
  State(std::shared_ptr<Worker> w, std::shared_ptr<Notifier> n, bool head)
      : worker(std::move(w)), notifier(std::move(n)), head_only(head) {}

  using HttpReply::lose;
  using HttpReply::pump;
  void close() override {
    {
      const std::lock_guard lock(mutex);
      is_cut = is_cut || !ended;
    }
    finish();
  }
  void finish() override { append({}, true); }

  std::shared_ptr<Worker> worker;
  std::shared_ptr<Notifier> notifier;
  bool head_only;

  mutable std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::vector<std::pair<std::string, std::string>> headers;
  int status = 0;
  std::string unread;
  bool ended = false;
  bool is_cut = false;  // true: the end of the answer is missing

  void add_header(std::string_view name, std::string_view value) override {
    const std::lock_guard lock(mutex);
    headers.emplace_back(name, value);
  }
  [[nodiscard]] size_t unsent() const override {
    const std::lock_guard lock(mutex);
    return unread.size();
  }

 private:
  void put_head(int s, std::string_view content_type, std::optional<size_t>) override {
    const std::lock_guard lock(mutex);
    status = s;
    if (!content_type.empty()) headers.emplace_back("Content-Type", content_type);
  }
  void put(std::string_view piece) override { append(piece, false); }

  void append(std::string_view piece, bool last) {
    {
      const std::lock_guard lock(mutex);
      if (!head_only) unread += piece;
      ended = ended || last;
    }
    changed.notify_one();
    if (notifier) notifier->notify();
  }
};

LocalReply::~LocalReply() { give_up(); }

int LocalReply::status(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, at_most, [this] { return state_->status != 0 || state_->ended; });
  return state_->status;
}

std::vector<std::pair<std::string, std::string>> LocalReply::headers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->headers;
}

std::string LocalReply::next(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, at_most, [this] { return !state_->unread.empty() || state_->ended; });
  core::require(!state_->is_cut || !state_->unread.empty(),
                "the answer is incomplete: the request took too long, or the service was stopped; repeat the request");
  std::string unread = std::exchange(state_->unread, {});
  lock.unlock();
  if (unread.size() >= kReplyWindow && !state_->worker->post([state = state_] { state->pump(); })) {
    state_->close();  // the service was stopped, so nothing more comes
  }
  return unread;
}

bool LocalReply::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended && state_->unread.empty() && !state_->is_cut;
}

void LocalReply::give_up() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ended) return;
  }
  state_->worker->post([state = state_] {
    state->finish();  // the answer ends here by the caller's wish, so it is not cut
    state->lose();
  });
}

LocalService::LocalService(AsyncEngine& engine, ServedModel served, ServiceOptions options)
    : worker_(std::make_shared<Worker>([this] { return tick(); })),
      service_(engine, std::move(served), for_callers(std::move(options)),
               [worker = worker_](std::function<void()> work) { worker->post(std::move(work)); }) {}

LocalService::~LocalService() { stop(); }

std::unique_ptr<LocalReply> LocalService::request(HttpRequest request, std::shared_ptr<Notifier> notifier) {
  request.head_only = request.method == "HEAD";
  if (request.head_only) request.method = "GET";
  const auto state = std::make_shared<LocalReply::State>(worker_, std::move(notifier), request.head_only);
  auto work = [this, request = std::move(request), state]() mutable {
    const size_t most = RequestLimits().max_body;
    if (request.body.size() <= most) {
      if (service_.admit(request, state)) service_.handle(std::move(request), state);
      return;
    }
    state->send(413, "application/json", service_.refused(413, fmt::format("the body is larger than {} bytes", most)));
  };
  if (!worker_->post(std::move(work))) {
    state->send(503, "application/json", error_body(ApiError(503, "the service was stopped")));
  }
  return std::unique_ptr<LocalReply>(new LocalReply(state));
}

void LocalService::stop() {
  worker_->stop([this] {
    service_.end_soon();
    service_.check_timeouts();
  });
}

// Called repeatedly on the service's thread. Ends requests that take too long. Returns true while there are requests.
bool LocalService::tick() {
  const auto now = std::chrono::steady_clock::now();
  if (now >= last_check_ + std::chrono::milliseconds(100)) {
    service_.check_timeouts();
    last_check_ = now;
  }
  return !service_.idle();
}

}  // namespace folio::infer::server
