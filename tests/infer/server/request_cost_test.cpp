// Tests the heap memory of requests: it is proportional to the request's size plus the number of choices, not to their
// product, and a reply is built only as its client reads it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <new>

#include "infer/server/local_service.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/support.h"

namespace {

std::atomic<int64_t> n_live = 0;
std::atomic<int64_t> n_most = 0;

}  // namespace

void* operator new(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  const int64_t live = n_live += static_cast<int64_t>(malloc_usable_size(block));
  for (int64_t most = n_most; live > most && !n_most.compare_exchange_weak(most, live);) continue;
  return block;
}
void operator delete(void* block) noexcept {
  n_live -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace folio::infer::server {
namespace {

using namespace std::chrono_literals;

class RequestCostTest : public ::testing::Test {
 protected:
  static core::ModelConfig config() {
    core::ModelConfig c = test::small_shapes()[1].config;  // with tokens 0 to 36
    c.context_length = 4000;
    return c;
  }
  std::unique_ptr<LocalReply> ask(const Json& body, const char* path = "/v1/completions") {
    return service_.request(
        {.method = "POST", .path = path, .body = body.dump(), .host = "localhost", .content_type = "application/json"});
  }
  // Sends `n` equal requests. Returns the peak increase of heap memory until the engine has all of them, in bytes.
  int64_t most_held(const Json& body, size_t n) {
    const int64_t before = n_live;
    n_most = before;
    std::vector<std::unique_ptr<LocalReply>> replies;
    for (size_t i = 0; i < n; ++i) replies.push_back(ask(body));
    EXPECT_EQ(ask({{"prompt", "a"}}, "/tokenize")->status(60s), 200);  // waits until the requests are prepared
    std::promise<void> had;
    async_.call([&](Engine& engine) {
      EXPECT_GT(engine.sequences().size(), 500U) << "they were not accepted";
      had.set_value();
    });
    had.get_future().wait();
    const int64_t most = n_most - before;
    replies.clear();  // abandons the requests
    do {
      EXPECT_EQ(service_.request({.method = "GET", .path = "/health", .host = "localhost"})->status(60s), 200);
    } while (async_.statistics().running + async_.statistics().waiting > 0);
    return most;
  }

  test::LetterTokenizer tokenizer_;
  core::StoredModel model_ = test::random_model(config());
  Cpu cpu_{{.n_threads = 1}};
  Engine engine_{model_, cpu_, {.max_positions = 8000}, {.max_sequences = 2}};
  AsyncEngine async_{engine_};
  LocalService service_{
      async_, {.name = "m", .context = 4000, .tokenizer = tokenizer_}, {.max_queue = 100'000, .log = false}};

  void TearDown() override {
    service_.stop();
    async_.stop();
  }
};

TEST_F(RequestCostTest, CostPerChoiceDoesNotDependOnOptions) {
  const auto per_choice = [&](Json body) {
    body["n"] = 128;
    body["max_tokens"] = 50;
    return most_held(body, 8) / 1024;
  };
  const int64_t least = per_choice({{"prompt", {1}}});
  EXPECT_LT(least, 8192);
  Json stops = Json::array();
  for (char letter = 'a'; letter < 'a' + 16; ++letter) stops.push_back(std::string(4096, letter));
  const auto bytes_of = [](const Json& body) { return static_cast<int64_t>(body.dump().size()); };
  // All copies of a request (as received, as parsed, in the engine) take at most kCopies times its size. Its 128
  // choices share each copy.
  constexpr int64_t kCopies = 16;
  for (const Json& body : {Json{{"prompt", {1}}, {"stop", stops}}, Json{{"prompt", test::random_tokens(3900, 1, 36)}},
                           Json{{"prompt", {1}}, {"stop", stops}, {"stream", true}}}) {
    EXPECT_LT(per_choice(body), least + kCopies * bytes_of(body) / 128) << body.dump().substr(0, 60);
  }
  Json prompts = {{"prompt", Json::array()}, {"stop", stops}};
  for (int32_t i = 0; i < 128; ++i) prompts["prompt"].push_back({i % 36});
  EXPECT_LT(most_held(prompts, 8) / 1024, 2 * least + kCopies * bytes_of(prompts) / 128);
}

// The results for a prompt's tokens are stored once for all choices, and a choice's part of the reply is built when the
// client reads it.
TEST_F(RequestCostTest, AnswersCostTheMemoryOfTheirParts) {
  for (const bool stream : {false, true}) {
    const Json body = {{"prompt", test::random_tokens(500, 1, 36)},
                       {"echo", true},
                       {"logprobs", 20},
                       {"n", 12},
                       {"max_tokens", 1},
                       {"stream", stream}};
    const int64_t before = n_live;
    n_most = before;
    const auto reply = ask(body);
    EXPECT_EQ(reply->status(60s), 200);
    EXPECT_LT(n_most - before, 3'000'000);
    size_t n_bytes = 0;
    while (!reply->ended()) {
      const std::string next = reply->next(60s);
      EXPECT_LT(next.size(), 2 * kReplyWindow);
      n_bytes += next.size();
    }
    EXPECT_GT(n_bytes, 10'000'000U) << "and it is large";
    EXPECT_LT(n_most - before, 3'000'000);
  }
}

// Lists of a choice's tokens, here 31 kB of pointers each, are made when the client reads that choice.
TEST_F(RequestCostTest, UnreadChoicesOfAnAnswerAreNotBuilt) {
  const Json body = {
      {"prompt", test::random_tokens(3900, 1, 36)}, {"echo", true}, {"logprobs", 0}, {"n", 128}, {"max_tokens", 1}};
  const int64_t before = n_live;
  const auto reply = ask(body);
  EXPECT_EQ(reply->status(60s), 200);
  EXPECT_EQ(ask({{"prompt", "a"}}, "/tokenize")->status(60s), 200);  // waits until the answer's first bytes are ready
  EXPECT_LT(n_live - before, 3'000'000);
}

}  // namespace
}  // namespace folio::infer::server
