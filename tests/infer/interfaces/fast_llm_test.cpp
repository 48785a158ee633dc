// Tests infer/interfaces/fast_llm.h: tokens and outputs equal those of generate() for any number of threads and
// requests, waiting threads sleep, and every response handle ends exactly once.
#include "infer/interfaces/fast_llm.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/formats/adapter_files.h"
#include "core/formats/model_files.h"
#include "core/utf8.h"
#include "tests/core/thread_states.h"
#include "tests/infer/support.h"

namespace folio::infer::fast_llm {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kPrompts = {"ROMEO:", "JULIET:\nWhat", "First Citizen:", "K", "O, "};

// Returns options that differ for each i.
GenerationConfig config_of(int i) {
  GenerationConfig config{.output_token_limit = 1 + i * 13 % 80, .seed = static_cast<uint64_t>(i)};
  if (i % 2 == 1) config.top_k = 5 + i;
  if (i % 4 == 1) config.top_p = 0.9F;
  if (i % 5 == 2) config.temperature = 1.3F;
  if (i % 3 == 1) config.repeat_penalty = 1.2F;
  if (i % 6 == 1) config.last_n = 0;
  if (i % 7 == 3) config.stop_token_ids = {0, 5};  // two frequent tokens, which end many outputs early
  if (i % 11 == 5) config.output_token_limit = 0;
  return config;
}

GenerateOptions options_of(const GenerationConfig& config) {
  return {.max_tokens = config.output_token_limit > 0 ? config.output_token_limit : 256,
          .sampler = {.temperature = config.temperature,
                      .top_k = config.top_k,
                      .top_p = config.top_p,
                      .repetition_penalty = config.repeat_penalty,
                      .repeat_last_n = config.last_n > 0 ? config.last_n : 1 << 30,
                      .seed = config.seed},
          .end_tokens{config.stop_token_ids.begin(), config.stop_token_ids.end()}};
}

std::vector<int32_t> fetched(Model& model, int handle) {
  std::vector<int32_t> tokens;
  for (int token = model.FetchResponseTokens(handle); token != -1; token = model.FetchResponseTokens(handle)) {
    tokens.push_back(token);
  }
  return tokens;
}

// Writes a model with random weights that needs a noticeable time per token. It has the golden model's tokenizer and a
// context that no test fills.
fs::path slow_model(const fs::path& folder) {
  const LoadedModel golden = LoadedModel::open(FOLIO_GOLDEN);
  core::ModelConfig config = golden.config();
  config.dim = 256;
  config.n_layers = 4;
  config.n_heads = 4;
  config.n_kv_heads = 1;
  config.head_dim = 64;
  config.hidden_dim = 1024;
  config.context_length = 1 << 16;
  const core::StoredModel model = test::random_model(config);
  core::write_gguf_model(folder / "slow.gguf", config, model.tensors, "slow", golden.tokenizer().to_gguf());
  return folder / "slow.gguf";
}

// Writes the golden model with a chat template that uses only letters of its vocabulary.
fs::path chatting_model(const fs::path& folder) {
  fs::copy(FOLIO_GOLDEN, folder / "chatting");
  std::ifstream in(fs::path(FOLIO_GOLDEN) / "tokenizer_config.json");
  std::string config((std::istreambuf_iterator<char>(in)), {});
  config.insert(config.find('{') + 1,
                R"("chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}END\n)"
                R"({% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",)");
  std::ofstream(folder / "chatting" / "tokenizer_config.json") << config;
  return folder / "chatting";
}

// Writes an adapter of the golden model that changes its outputs.
void write_random_adapter(const fs::path& folder) {
  const core::ModelConfig config = core::read_model(FOLIO_GOLDEN).config;
  const core::AdapterInfo info{.rank = 2, .alpha = 2.0, .targets = {core::Role::W2}, .base = ""};
  core::Adapter adapter{.path = "", .parts = {}};
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    const auto n_values = [&](int64_t size) { return static_cast<size_t>(info.rank * size); };
    adapter.parts.push_back({.role = core::Role::W2,
                             .layer = layer,
                             .rank = static_cast<size_t>(info.rank),
                             .scale = info.scale(),
                             .a = test::random_floats(n_values(config.hidden_dim), 1),
                             .b = test::random_floats(n_values(config.dim), 2)});
  }
  core::write_adapter(folder, config, adapter, info);
}

TEST(FastLlm, AppliesAdaptersAndRejectsDrafts) {
  const test::TempDir folder;
  write_random_adapter(folder.path());
  const LoadOptions options{.adapters = {{.path = folder.path()}}};
  LoadedModel alone = LoadedModel::open(FOLIO_GOLDEN, options);
  Model adapted(FOLIO_GOLDEN, options), base(FOLIO_GOLDEN);
  const GenerationConfig config{.output_token_limit = 40};
  const std::string text = adapted.Response("ROMEO:", {}, config);
  EXPECT_EQ(text, alone.generate("ROMEO:", options_of(config)).text);
  EXPECT_NE(text, base.Response("ROMEO:", {}, config));
  EXPECT_ERROR(Model(FOLIO_GOLDEN, {.draft_model = FOLIO_GOLDEN}), "leave out draft and draft_model");
}

TEST(LoadedModel, AssignmentFreesRequestsBeforeTheDraftModel) {
  LoadedModel model = LoadedModel::open(FOLIO_GOLDEN, {.draft_model = FOLIO_GOLDEN});
  model.engine().goodput().set_times({}, 0.0);
  model.engine().add({.prompt = {1, 2, 3}, .options = {.max_tokens = 90, .speculate = 2}});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(model.engine().step());
  model = LoadedModel::open(FOLIO_GOLDEN);
  EXPECT_EQ(model.generate("ROMEO:", {.max_tokens = 3}).tokens.size(), 3U);
}

TEST(FastLlm, HandlesMatchGenerate) {
  constexpr int kHandles = 64;
  LoadedModel alone = LoadedModel::open(FOLIO_GOLDEN);
  Model model(FOLIO_GOLDEN);
  std::vector<int> handles;
  for (int i = 0; i < kHandles; ++i) {
    handles.push_back(model.LaunchResponseTokens(model.Encode(kPrompts[i % kPrompts.size()]), config_of(i)));
  }
  std::array<std::vector<int32_t>, kHandles> tokens;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = thread; i < kHandles; i += 8) tokens[i] = fetched(model, handles[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kHandles; ++i) {
    const GenerateResult expected = alone.generate(kPrompts[i % kPrompts.size()], options_of(config_of(i)));
    EXPECT_EQ(tokens[i], expected.tokens) << "handle " << i;
    EXPECT_EQ(model.FetchResponseTokens(handles[i]), -1);
  }
}

TEST(FastLlm, ThreadsSharingAHandleGetEachTokenOnce) {
  Model model(FOLIO_GOLDEN);
  const GenerationConfig config{.output_token_limit = 200, .top_k = 30, .seed = 3};
  std::vector<int32_t> expected = fetched(model, model.LaunchResponseTokens(model.Encode("ROMEO:"), config));
  const int handle = model.LaunchResponseTokens(model.Encode("ROMEO:"), config);
  std::array<std::vector<int32_t>, 4> tokens;
  std::vector<std::thread> threads;
  for (auto& mine : tokens) {
    threads.emplace_back([&] { mine = fetched(model, handle); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int32_t> all;
  for (const auto& mine : tokens) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  std::ranges::sort(expected);
  EXPECT_EQ(all, expected);
}

// A thread that waits for a token must sleep. A polling thread would fetch all tokens without being seen asleep.
TEST(FastLlm, FetchingBlocksWithoutPolling) {
  const test::TempDir folder;
  Model model(slow_model(folder.path()), {.machines = {.n_threads = 1}});
  const int handle = model.LaunchResponseTokens(model.Encode("ROMEO:"), {.output_token_limit = 2000});
  std::atomic<pid_t> number{0};
  std::atomic<bool> has_ended{false};
  std::thread waiting([&] {
    EXPECT_GE(model.FetchResponseTokens(handle), 0);
    number = ::gettid();
    static_cast<void>(fetched(model, handle));
    has_ended = true;
  });
  while (number == 0) std::this_thread::yield();
  const std::string thread = std::to_string(number);
  bool slept = false;
  while (!slept && !has_ended) slept = core::test::sleeps(thread);
  EXPECT_TRUE(slept);
  model.AbortResponse(handle);
  waiting.join();
}

TEST(FastLlm, AbortWakesOnlyItsWaiters) {
  const test::TempDir folder;
  Model model(slow_model(folder.path()), {.machines = {.n_threads = 1}});
  const int endless = model.LaunchResponseTokens(model.Encode("ROMEO:"));
  const int other = model.LaunchResponseTokens(model.Encode("JULIET:"), {.output_token_limit = 50});
  std::thread waiting([&] { EXPECT_LT(fetched(model, endless).size(), 65'000U); });
  ASSERT_GE(model.FetchResponseTokens(other), 0);
  model.AbortResponse(endless);
  waiting.join();
  EXPECT_EQ(fetched(model, other).size(), 49U);
  model.AbortResponse(endless);
  model.AbortResponse(other);
  EXPECT_EQ(model.FetchResponseTokens(endless), -1);
  EXPECT_ERROR(model.FetchResponseTokens(7), "unknown handle 7: launch has returned 2 so far");
  EXPECT_ERROR((model.AbortResponse(-1), 0), "unknown handle -1");
}

TEST(FastLlm, UnfetchedRequestsEndWithTheModel) {
  const test::TempDir folder;
  const fs::path file = slow_model(folder.path());
  Model model(file, {.machines = {.n_threads = 1}});
  for (int i = 0; i < 40; ++i) static_cast<void>(model.LaunchResponseTokens(model.Encode("ROMEO:")));
  EXPECT_GE(model.FetchResponseTokens(39), 0);  // all requests run until ~Model() cancels them
}

TEST(FastLlm, FirstFetchThrowsTheError) {
  Model model(FOLIO_GOLDEN);
  const int handle = model.LaunchResponseTokens(std::vector<int>(300, 1));
  EXPECT_ERROR(model.FetchResponseTokens(handle), "the prompt has 300 tokens, more than the context of 256");
  EXPECT_EQ(model.FetchResponseTokens(handle), -1);
  EXPECT_ERROR(model.Response(std::string(300, 'a'), {}), "300 tokens");
  std::vector<std::string> outputs;
  EXPECT_ERROR((model.ResponseBatch({"ROMEO:", std::string(300, 'a')}, outputs), 0), "300 tokens");
  EXPECT_EQ(model.Response("ROMEO:", {}, {.output_token_limit = 5}).size(), 5U);
}

TEST(FastLlm, ErrorsNameOptionsOutOfRange) {
  Model model(FOLIO_GOLDEN);
  const std::vector<int> prompt = model.Encode("K");
  EXPECT_ERROR(model.LaunchResponseTokens(prompt, {.repeat_penalty = 0.0F}), "repeat_penalty is 0, but must be in [");
  EXPECT_ERROR(model.LaunchResponseTokens(prompt, {.temperature = NAN}), "temperature is nan");
}

// The callback gets i and the i-th output token of every prompt for i = 0, 1, 2, …, and finally -1 and the complete
// outputs.
TEST(FastLlm, BatchCallbacksAreInTokenOrder) {
  LoadedModel alone = LoadedModel::open(FOLIO_GOLDEN);
  Model model(FOLIO_GOLDEN);
  const GenerationConfig config{.output_token_limit = 60, .top_k = 20, .stop_token_ids = {0}, .seed = 5};
  std::vector<std::string> expected;
  for (const std::string& prompt : kPrompts) expected.push_back(alone.generate(prompt, options_of(config)).text);
  size_t longest = 0;
  for (const std::string& text : expected) longest = std::max(longest, text.size());  // each token is one letter

  std::vector<std::string> outputs{"what was here"};
  std::vector<std::string> texts(kPrompts.size());
  int next = 0;
  bool ended = false;
  model.ResponseBatch(
      kPrompts, outputs,
      [&](int index, std::vector<std::string>& contents) {
        EXPECT_FALSE(ended);
        ASSERT_EQ(contents.size(), kPrompts.size());
        if (index == -1) {
          ended = true;
          EXPECT_EQ(contents, expected);
          return;
        }
        EXPECT_EQ(index, next++);
        for (size_t i = 0; i < contents.size(); ++i) {
          EXPECT_EQ(contents[i], expected[i].substr(std::min<size_t>(index, expected[i].size()), 1));
          texts[i] += contents[i];
        }
      },
      config);
  EXPECT_TRUE(ended);
  EXPECT_EQ(static_cast<size_t>(next), longest);
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(outputs, expected);

  std::string said;
  const std::string text = model.Response(
      kPrompts[0],
      [&](int index, const char* content) { index >= 0 ? said += content : said += '|' + std::string(content); },
      config);
  EXPECT_EQ(text, expected[0]);
  EXPECT_EQ(said, text + "|" + text);
  model.ResponseBatch({}, outputs, [](int, auto&) { FAIL(); });
  EXPECT_TRUE(outputs.empty());
}

TEST(FastLlm, CallbackExceptionsEndTheirOutput) {
  Model model(FOLIO_GOLDEN);
  EXPECT_ERROR(model.Response("ROMEO:", [](int, const char*) { core::fail("enough"); }), "enough");
  EXPECT_EQ(model.Response("ROMEO:", {}, {.output_token_limit = 5}).size(), 5U);
}

TEST(FastLlm, WithoutATemplateMessagesAreConcatenated) {
  Model model(FOLIO_GOLDEN);
  const std::string history = model.MakeHistory("not used", 0, "ROMEO:", " ay");
  EXPECT_EQ(history, "ROMEO: ay");
  EXPECT_EQ(model.MakeInput(history, 1, "\nJULIET:"), "ROMEO: ay\nJULIET:");
  EXPECT_EQ(model.MakeInput(history, 0, "\nJULIET:"), "\nJULIET:");
  model.WarmUp();
}

TEST(FastLlm, HistoryMatchesTheRenderedConversation) {
  const test::TempDir folder;
  Model model(chatting_model(folder.path()));
  std::string history = model.MakeHistory("", 0, "Who", "I");
  EXPECT_EQ(history, "user: WhoEND\nassistant: IEND\n");
  history = model.MakeHistory(history, 1, "Why", "So");
  EXPECT_EQ(model.MakeInput(history, 2, "Oh"),
            "user: WhoEND\nassistant: IEND\nuser: WhyEND\nassistant: SoEND\nuser: OhEND\nassistant: ");
}

class FastLlmChat : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(FOLIO_SMOLLM2)) GTEST_SKIP() << FOLIO_SMOLLM2 << " is not there: make smollm2 fetches it";
  }
};

// With byte tokens, a character may have several tokens. The callback never gets a part of a character.
TEST_F(FastLlmChat, CallsHaveWholeCharacters) {
  LoadedModel alone = LoadedModel::open(FOLIO_SMOLLM2);
  Model model(FOLIO_SMOLLM2);
  const std::string prompt = "Ten emojis: 🦊 🌍 🎉 🥝";
  const GenerationConfig config{.output_token_limit = 40, .top_k = 20, .temperature = 1.5F, .seed = 1};
  std::string said;
  size_t n_empty = 0;
  const std::string text = model.Response(
      prompt,
      [&](int index, const char* content) {
        if (index < 0) return;
        EXPECT_EQ(core::complete_utf8_prefix(content), std::strlen(content)) << content;
        if (*content == '\0') ++n_empty;
        said += content;
      },
      config);
  EXPECT_EQ(said, text);
  EXPECT_EQ(text, alone.generate(prompt, options_of(config)).text);
  EXPECT_GT(n_empty, 0U) << "no token was part of a character: " << text;
}

}  // namespace
}  // namespace folio::infer::fast_llm
