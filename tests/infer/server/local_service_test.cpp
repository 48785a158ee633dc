// Tests infer/server/local_service.h: callers on many threads get the same responses as over HTTP, an abandoned reply
// ends its requests, and stopping a service ends all requests.
#include "infer/server/local_service.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <new>
#include <thread>

#include "core/error.h"
#include "core/formats/adapter_files.h"
#include "infer/forward/pass_through.h"
#include "tests/core/support.h"
#include "tests/infer/engine/gate.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/engine/texts.h"
#include "tests/infer/support.h"

namespace folio::infer::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kHang = 120s;  // timeout, so that a hanging test fails

// A tokenizer whose encode("wait") blocks until open() is called.
class GatedTokenizer final : public test::LetterTokenizer {
 public:
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override {
    if (text == "wait") {
      entered_.set_value();
      opened_.wait();
    }
    return {};
  }
  void wait_until_entered() { entered_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  mutable std::promise<void> entered_;
  std::promise<void> open_;
  std::shared_future<void> opened_{open_.get_future()};
};

HttpRequest get(const std::string& path, const std::string& method = "GET") {
  return {.method = method, .path = path, .host = "localhost"};
}
HttpRequest post(const std::string& path, const Json& body) {
  return {.method = "POST", .path = path, .body = body.dump(), .host = "localhost", .content_type = "application/json"};
}
std::string body_of(LocalReply& reply) {
  std::string body;
  while (!reply.ended()) body += reply.next(1s);
  return body;
}

// An adapter of rank 2 in peft's format, and the request that loads it.
class StoredAdapter {
 public:
  explicit StoredAdapter(const core::ModelConfig& config) {
    const core::Adapter adapter = test::random_adapter(config, 1, 2);
    for (const core::Adapter::Part& part : adapter.parts) n_bytes_ += sizeof(float) * (part.a.size() + part.b.size());
    const double scale = adapter.parts[0].scale;
    core::write_adapter(dir_.path(), config, adapter,
                        {.rank = 2, .alpha = 2 * scale, .targets = core::roles_of(adapter), .base = ""});
  }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }
  [[nodiscard]] HttpRequest load_as(const std::string& name) const {
    return post("/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", dir_.path().string()}});
  }

 private:
  test::TempDir dir_;
  size_t n_bytes_ = 0;
};

void block(AsyncEngine& engine, test::Gate& gate) {
  gate.close();
  engine.call([](Engine&) {});
  gate.await_thread();
}

class LocalServiceTest : public ::testing::Test {
 protected:
  static Json completion(uint64_t seed) {
    return {{"prompt", test::random_tokens(1 + seed % 20, seed, 37)}, {"max_tokens", 30}, {"seed", seed}};
  }
  Json answer(HttpRequest request) { return Json::parse(body_of(*service_.request(std::move(request)))); }
  int status_of(const HttpRequest& request) { return service_.request(request)->status(kHang); }
  std::string metrics() { return body_of(*service_.request(get("/metrics"))); }

  GatedTokenizer tokenizer_;
  core::StoredModel model_ = test::random_model(test::small_shapes()[1].config);  // vocabulary 37, context 100
  Cpu cpu_{{.n_threads = 1}};
  Engine engine_{model_, cpu_, {.max_positions = 400}};
  AsyncEngine async_{engine_};
  std::shared_ptr<test::Gate> gate_ = test::Gate::after_steps_of(async_);
  LocalService service_{async_, {.name = "m", .context = 100, .tokenizer = tokenizer_}, {.log = false}};

  void TearDown() override {
    gate_->open();
    async_.stop();  // no callback runs after this
  }
};

TEST_F(LocalServiceTest, ConcurrentCallersGetTheSameTexts) {
  constexpr uint64_t kRequests = 24;
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < kRequests; ++i) {
    expected.push_back(answer(post("/v1/completions", completion(i)))["choices"][0]["text"]);
  }
  std::vector<std::future<int>> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [&, thread] {
      int n_wrong = 0;
      for (uint64_t i = thread; i < kRequests; i += 4) {
        Json body = completion(i);
        body["stream"] = true;
        const auto reply = service_.request(post("/v1/completions", body));
        if (i % 3 == 0) static_cast<void>(service_.request(post("/v1/completions", completion(i))));  // abandoned
        std::string events = body_of(*reply);
        std::string text;
        for (size_t at = 0; events.compare(at, 7, "data: {") == 0; at = events.find("\n\n", at) + 2) {
          text += Json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6))["choices"][0]["text"];
        }
        n_wrong += text == expected[i] && events.ends_with("data: [DONE]\n\n") ? 0 : 1;
      }
      return n_wrong;
    }));
  }
  for (auto& thread : threads) EXPECT_EQ(thread.get(), 0);
}

TEST_F(LocalServiceTest, StatusAndHeadersMatchTheServer) {
  const auto reply = service_.request(post("/v1/completions", {{"prompt", "0"}, {"nonsense", 1}}));
  EXPECT_EQ(reply->status(kHang), 400);
  EXPECT_EQ(Json::parse(body_of(*reply))["error"]["message"], "unknown field: nonsense");
  EXPECT_EQ(status_of(post("/v1/completions", std::string(5'000'000, 'a'))), 413);
  const auto refused = service_.request(get("/v1/models", "DELETE"));
  EXPECT_EQ(refused->status(kHang), 405);
  const std::pair<std::string, std::string> allow{"Allow", "GET, HEAD, OPTIONS"};
  EXPECT_EQ(std::ranges::count(refused->headers(), allow), 1);
  const auto head = service_.request(get("/v1/models", "HEAD"));
  EXPECT_EQ(head->status(kHang), 200);
  EXPECT_EQ(body_of(*head), "");
  EXPECT_EQ(status_of(get("/v1/models", "OPTIONS")), 204);
  const Json described = answer(get("/openapi.json"))["paths"]["/engine"]["get"]["responses"];
  EXPECT_TRUE(described.contains("429") && described.contains("503")) << described;
  const std::string text = metrics();
  EXPECT_NE(text.find("{path=\"/v1/models\",status=\"204\"} 1\n"), std::string::npos) << text;
}

TEST_F(LocalServiceTest, CallersSeedIsTheDefault) {
  Json body = completion(5);
  const Json named = answer(post("/v1/completions", body));
  body.erase("seed");
  HttpRequest request = post("/v1/completions", body);
  request.random_seed = 5;
  const Json given = answer(request);
  EXPECT_EQ(given["seed"], 5);
  EXPECT_EQ(given["choices"], named["choices"]);
}

TEST_F(LocalServiceTest, DroppedRepliesEndTheirRequests) {
  Json body = completion(1);
  body.update({{"stream", true}, {"n", 128}, {"max_tokens", 80}});
  gate_->close();
  auto reply = service_.request(post("/v1/completions", body));
  gate_->await_thread();  // waits until the engine's thread is blocked after a step
  reply.reset();
  // Waits for the response to a later request, so that the service has processed reply.reset().
  EXPECT_EQ(status_of(get("/health")), 200);
  gate_->open();
  while (async_.statistics().running + async_.statistics().waiting > 0) std::this_thread::yield();
  EXPECT_LT(async_.statistics().tokens, 128U * 80U);
}

TEST_F(LocalServiceTest, AnswersOthersWhilePreparingARequest) {
  const auto first = service_.request(post("/v1/completions", {{"prompt", "wait"}, {"max_tokens", 2}}));
  tokenizer_.wait_until_entered();
  const auto second = service_.request(post("/v1/completions", completion(1)));
  EXPECT_EQ(status_of(get("/health")), 200);
  tokenizer_.open();
  EXPECT_EQ(first->status(kHang), 200);
  EXPECT_EQ(second->status(kHang), 200);
}

TEST_F(LocalServiceTest, TimeToFirstTokenIncludesPreparation) {
  const auto reply = service_.request(post("/v1/completions", {{"prompt", "wait"}, {"max_tokens", 2}}));
  tokenizer_.wait_until_entered();
  std::this_thread::sleep_for(201ms);  // at least, so that no histogram bucket below 0.2 s can count the request
  tokenizer_.open();
  static_cast<void>(body_of(*reply));
  const std::string text = metrics();
  EXPECT_NE(text.find("folio_time_to_first_token_seconds_bucket{le=\"0.2\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("folio_time_to_first_token_seconds_count 1\n"), std::string::npos) << text;
}

// Other requests leave 2 blocks of the cache, too few for 90 tokens.
TEST_F(LocalServiceTest, ExplanationsNeedBlocksForTheirLongestText) {
  const auto status = [&](size_t n_prompt, const Json& fields) {
    Json body = {{"prompt", test::random_tokens(n_prompt, 1, 37)}};
    body.update(fields);
    return status_of(post("/v1/explain", body));
  };
  ASSERT_TRUE(async_.call_and_wait([](Engine& engine) {
    BlockManager& cache = engine.cache();
    cache.reserve(cache.add_sequence(), (cache.free_blocks() - 2) * kBlockPositions);
    cache.commit();
  }));
  const auto text = test::random_tokens(90, 2, 37);
  EXPECT_EQ(status(1, Json::object()), 200);
  EXPECT_EQ(status(90, Json::object()), 429);
  EXPECT_EQ(status(1, {{"patch", Json::array({"0"})}, {"from", text}}), 429);
  EXPECT_EQ(status(1, {{"mean", Json::array({"0"})}, {"mean_over", text}}), 429);
}

TEST_F(LocalServiceTest, RequestsDroppedDuringPreparationNeverRun) {
  const auto first = service_.request(post("/tokenize", {{"prompt", "wait"}}));
  tokenizer_.wait_until_entered();
  auto second = service_.request(post("/v1/completions", completion(1)));
  EXPECT_EQ(status_of(get("/health")), 200);  // ensures that `second` is queued for preparation
  second.reset();
  EXPECT_EQ(status_of(get("/health")), 200);  // ensures that `second` has been abandoned
  tokenizer_.open();
  EXPECT_EQ(status_of(post("/tokenize", {{"prompt", "x"}})), 200);
  EXPECT_EQ(first->status(kHang), 200);
  EXPECT_EQ(async_.statistics().tokens, 0U);
}

TEST_F(LocalServiceTest, StoppingAnswersRequestsInPreparation) {
  const auto prepared = service_.request(post("/v1/completions", {{"prompt", "wait"}}));
  tokenizer_.wait_until_entered();
  const auto waits = service_.request(post("/v1/completions", completion(2)));
  service_.stop();
  EXPECT_EQ(prepared->status(kHang), 503);
  EXPECT_EQ(waits->status(kHang), 503);
  tokenizer_.open();
}

// The client disconnects while the first piece is written, so the request must end without further writes.
TEST_F(LocalServiceTest, FailedWritesEndTheirRequest) {
  struct LostReply final : HttpReply {
    int n_writes = 0;
    void add_header(std::string_view, std::string_view) override {}
    [[nodiscard]] size_t unsent() const override { return 0; }
    void put_head(int, std::string_view, std::optional<size_t>) override {}
    void put(std::string_view piece) override {
      if (piece.empty()) return;
      ++n_writes;
      lose();
    }
    void finish() override {}
    void close() override {}
  };
  Worker worker;
  Service service(async_, {.name = "m", .context = 100, .tokenizer = tokenizer_},
                  {.allowed_hosts = {"localhost"}, .log = false},
                  [&](std::function<void()> work) { worker.post(std::move(work)); });
  const auto reply = std::make_shared<LostReply>();
  Json body = completion(1);
  body.update({{"stream", true}, {"n", 128}});
  worker.post([&] { service.handle(post("/v1/completions", body), reply); });
  const auto is_idle = [&] {
    std::promise<bool> idle;
    worker.post([&] { idle.set_value(service.idle()); });
    return idle.get_future().get();
  };
  while (!is_idle()) std::this_thread::yield();
  EXPECT_EQ(reply->n_writes, 1);
  async_.stop();
  worker.stop();
}

TEST_F(LocalServiceTest, StoppingEndsRunningRequests) {
  Json body = completion(1);
  body.update({{"stream", true}, {"n", 128}, {"max_tokens", 80}});
  const auto runs = service_.request(post("/v1/completions", body));
  const auto waits = service_.request(post("/v1/completions", completion(2)));
  EXPECT_EQ(runs->status(kHang), 200);
  service_.stop();
  static_cast<void>(body_of(*runs));
  static_cast<void>(body_of(*waits));
  EXPECT_EQ(status_of(post("/v1/completions", completion(3))), 503);
}

TEST_F(LocalServiceTest, StoppingEndsRepliesThatAreNotReadToTheirEnd) {
  const Json tokens(std::vector<int>(200'000, 1));
  const auto reply = service_.request(post("/detokenize", {{"tokens", tokens}}));  // longer than kReplyWindow
  EXPECT_EQ(reply->status(kHang), 200);
  service_.stop();
  EXPECT_THROW(static_cast<void>(body_of(*reply)), core::Error);
}

// The adapter's files are read, but the engine's thread is blocked and can't load it.
TEST_F(LocalServiceTest, StoppingAnswersRequestsThatLoadAdapters) {
  const StoredAdapter adapter(model_.config);
  LocalService service(async_, {.name = "m", .context = 100, .tokenizer = tokenizer_},
                       {.log = false, .adapters = {.allow_loading = true}});
  block(async_, *gate_);
  const auto reply = service.request(adapter.load_as("x"));
  EXPECT_EQ(service.request(post("/tokenize", {{"prompt", "x"}}))->status(kHang), 200);  // prepared after the other
  EXPECT_EQ(Json::parse(body_of(*service.request(adapter.load_as("x"))))["error"]["message"],
            "the adapter x is being loaded by another request; wait until that request is answered");
  service.stop();
  EXPECT_EQ(reply->status(kHang), 503);
  gate_->open();
  async_.stop();
}

std::function<void()> failure;  // called instead of each norm

TEST(LocalServiceErrors, ErrorsOfAMachineAreTheServers) {
  kernels::Kernels failing = kernels::reference_kernels();
  failing.rms_norm = [](const float*, const float*, float, size_t, float*) { failure(); };
  const core::StoredModel model = test::random_model(test::small_shapes()[1].config);
  const test::LetterTokenizer tokenizer;
  Cpu cpu({.n_threads = 1, .kernels = &failing});
  Engine engine(model, cpu);
  AsyncEngine async(engine);
  LocalService service(async, {.name = "m", .context = 100, .tokenizer = tokenizer}, {.log = false});
  const auto expect = [&](int status, const std::string& message) {
    for (const char* path : {"/v1/completions", "/v1/explain"}) {
      const auto reply = service.request(post(path, {{"prompt", {1}}}));
      EXPECT_EQ(reply->status(kHang), status) << path;
      const std::string body = body_of(*reply);
      EXPECT_TRUE(std::string(Json::parse(body)["error"]["message"]).starts_with(message)) << body;
    }
  };
  failure = [] { throw std::bad_alloc(); };
  expect(500, "out of memory; ");
  failure = [] { throw MachineError("GPU 0: a kernel failed"); };
  expect(500, "GPU 0: a kernel failed");
  EXPECT_FALSE(async.loss());
  failure = [] { throw MachineLost("GPU 0: gone"); };
  expect(503, "GPU 0: gone");
  EXPECT_TRUE(async.loss());
  async.stop();
}

class FullStage final : public PassThroughStage {
 public:
  using PassThroughStage::PassThroughStage;
  void load_adapter(int32_t, const core::Adapter&) override { throw MachineError("GPU 0: out of memory"); }
};

// The memory of --adapter-memory is reserved for x, whose load fails, while a request for y waits for it.
TEST(LocalServiceErrors, FailedLoadsReleaseTheirMemory) {
  const core::StoredModel model = test::random_model(test::small_shapes()[1].config);
  const StoredAdapter adapter(model.config);
  const test::LetterTokenizer tokenizer;
  test::WrappedMachine machine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}), [](std::unique_ptr<Stage> stage) {
    return std::make_unique<FullStage>(std::move(stage));
  });
  Engine engine(model, machine);
  AsyncEngine async(engine);
  const auto gate = test::Gate::after_steps_of(async);
  LocalService service(async, {.name = "m", .context = 100, .tokenizer = tokenizer},
                       {.log = false, .adapters = {.allow_loading = true, .memory = adapter.n_bytes() * 3 / 2}});
  block(async, *gate);
  const auto fails = service.request(adapter.load_as("x"));
  EXPECT_EQ(service.request(adapter.load_as("y"))->status(kHang), 200);  // only named, since no memory is left
  const auto waits = service.request(post("/v1/completions", {{"model", "y"}, {"prompt", {1}}}));
  EXPECT_EQ(service.request(post("/tokenize", {{"prompt", "x"}}))->status(kHang), 200);
  EXPECT_EQ(service.request(get("/health"))->status(kHang), 200);  // by now, `waits` waits for memory
  gate->open();
  EXPECT_EQ(fails->status(kHang), 500);
  EXPECT_EQ(waits->status(kHang), 500);
  async.stop();
}

}  // namespace
}  // namespace folio::infer::server
