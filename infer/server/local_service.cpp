#include "infer/server/local_service.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

ServiceOptions for_callers(ServiceOptions options) {
  options.allowed_hosts.emplace_back("localhost");
  options.grace = std::chrono::seconds(0);
  return options;
}

}  // namespace

// Work for the service's thread. Replies hold it, too, and may outlive the service.
struct LocalService::Queue {
  std::mutex mutex;
  std::condition_variable came;
  std::deque<std::function<void()>> work;
  bool stops = false;

  /// False: nobody does it any more.
  bool post(std::function<void()> one) {
    {
      const std::lock_guard lock(mutex);
      if (stops) return false;
      work.push_back(std::move(one));
    }
    came.notify_one();
    return true;
  }
};

struct LocalReply::State final : public HttpReply {
  State(std::shared_ptr<LocalService::Queue> q, std::shared_ptr<Notifier> n, bool head)
      : queue(std::move(q)), notifier(std::move(n)), head_only(head) {}

  std::shared_ptr<LocalService::Queue> queue;
  std::shared_ptr<Notifier> notifier;
  bool head_only;
  bool done = false;  // the service's thread's alone, as the next
  std::function<void()> lost{};
  std::function<void()> writable{};

  mutable std::mutex mutex;  // of what follows
  std::condition_variable came;
  std::vector<std::pair<std::string, std::string>> headers;
  int status = 0;
  std::string news;
  bool ended = false;

  void add_header(std::string_view name, std::string_view value) override {
    const std::lock_guard lock(mutex);
    headers.emplace_back(name, value);
  }
  void send(int s, std::string_view content_type, std::string_view body) override { tell(s, content_type, body, true); }
  void begin(int s, std::string_view content_type) override { tell(s, content_type, {}, false); }
  void write(std::string_view piece) override { tell(0, {}, piece, false); }
  void end() override { tell(0, {}, {}, true); }
  void abort() override {
    lost = {};
    lose();
  }
  [[nodiscard]] size_t unsent() const override {
    const std::lock_guard lock(mutex);
    return news.size();
  }
  void on_writable(std::function<void()> when_writable) override {
    if (!done) writable = std::move(when_writable);
  }
  void on_lost(std::function<void()> when_lost) override {
    if (done) return when_lost();
    lost = std::move(when_lost);
  }

  void lose() {
    if (done) return;
    const auto tell_lost = std::exchange(lost, {});
    tell(0, {}, {}, true);
    if (tell_lost) tell_lost();
  }

 private:
  void tell(int s, std::string_view content_type, std::string_view piece, bool last) {
    if (done) return;
    {
      const std::lock_guard lock(mutex);
      if (s != 0) status = s;
      if (!content_type.empty()) headers.emplace_back("Content-Type", content_type);
      if (!head_only) news += piece;
      ended = last;
    }
    came.notify_one();
    if (notifier) notifier->notify();
    done = last;
    if (done) lost = writable = {};
  }
};

LocalReply::~LocalReply() { give_up(); }

int LocalReply::status(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->came.wait_for(lock, at_most, [this] { return state_->status != 0 || state_->ended; });
  return state_->status;
}

std::vector<std::pair<std::string, std::string>> LocalReply::headers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->headers;
}

std::string LocalReply::next(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->came.wait_for(lock, at_most, [this] { return !state_->news.empty() || state_->ended; });
  std::string news = std::exchange(state_->news, {});
  lock.unlock();
  if (news.size() >= kReplyWindow) {
    state_->queue->post([state = state_] {
      if (const auto writable = state->writable) writable();
    });
  }
  return news;
}

bool LocalReply::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended && state_->news.empty();
}

void LocalReply::give_up() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ended) return;
  }
  state_->queue->post([state = state_] { state->lose(); });
}

LocalService::LocalService(AsyncEngine& engine, ServedModel served, ServiceOptions options)
    : queue_(std::make_shared<Queue>()),
      service_(engine, std::move(served), for_callers(std::move(options)),
               [queue = queue_](std::function<void()> work) { queue->post(std::move(work)); }),
      thread_([this] { run(); }) {}

LocalService::~LocalService() { stop(); }

std::unique_ptr<LocalReply> LocalService::request(HttpRequest request, std::shared_ptr<Notifier> notifier) {
  request.head_only = request.method == "HEAD";
  if (request.head_only) request.method = "GET";
  const auto state = std::make_shared<LocalReply::State>(queue_, std::move(notifier), request.head_only);
  auto work = [this, request = std::move(request), state]() mutable {
    const size_t most = RequestLimits().max_body;
    if (request.body.size() <= most) {
      if (service_.admit(request, state)) service_.handle(std::move(request), state);
      return;
    }
    state->send(413, "application/json", service_.refused(413, fmt::format("the body is larger than {} bytes", most)));
  };
  if (!queue_->post(std::move(work))) {
    state->send(503, "application/json", error_body(ApiError(503, "the service was stopped")));
  }
  return std::unique_ptr<LocalReply>(new LocalReply(state));
}

void LocalService::stop() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stops = true;
  }
  queue_->came.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LocalService::run() {
  constexpr std::chrono::milliseconds kLook{100};
  const auto has_work = [this] { return queue_->stops || !queue_->work.empty(); };
  auto looked = std::chrono::steady_clock::now();
  for (bool stops = false; !stops;) {
    std::deque<std::function<void()>> work;
    {
      std::unique_lock lock(queue_->mutex);
      if (service_.idle()) {
        queue_->came.wait(lock, has_work);
      } else {
        queue_->came.wait_for(lock, kLook, has_work);
      }
      work.swap(queue_->work);
      stops = queue_->stops;
    }
    for (const auto& one : work) one();
    const auto now = std::chrono::steady_clock::now();
    if (now < looked + kLook && !stops) continue;
    if (stops) service_.end_soon();
    service_.look_at_clock();
    looked = now;
  }
}

}  // namespace folio::infer::server
