// Tests the ranks of infer/ranks/net, which are usually processes but here threads with a machine each: logits equal
// those of one CPU on any grid, pipeline stages compute steps of different sequences concurrently, and an error names a
// rank that fails or doesn't answer.
#include "infer/ranks/net/ranked_cpu.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "infer/forward/machine.h"
#include "infer/forward/runner.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/ranked_stage.h"
#include "infer/ranks/net/rendezvous.h"
#include "tests/core/support.h"
#include "tests/infer/engine/texts.h"
#include "tests/infer/ranks/kinds.h"
#include "tests/infer/ranks/stopping_recv.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::kLength;
using test::logits_of;
using test::same_bits;
using test::Shape;

uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

struct Grid {
  size_t n_ranks = 2;
  size_t n_stages = 1;
  bool shared_memory = true;
};

std::string describe(const Grid& g) {
  return fmt::format("{} ranks in {} stages{}", g.n_ranks, g.n_stages, g.shared_memory ? "" : " by messages");
}

std::vector<RankConfig> rank_configs(const Grid& grid, std::chrono::seconds timeout = std::chrono::seconds(300)) {
  std::vector<RankConfig> all;
  const uint16_t port = free_port();
  for (size_t rank = 0; rank < grid.n_ranks; ++rank) {
    all.push_back({.rank = rank,
                   .n_ranks = grid.n_ranks,
                   .n_local = grid.n_ranks,
                   .address = "127.0.0.1",
                   .port = port,
                   .timeout = timeout,
                   .shared_memory = grid.shared_memory});
  }
  return all;
}

// Calls `lead` with rank 0's machine. Meanwhile, each other rank loads the model, calls may_follow(rank), and then
// executes rank 0's steps. Returns the number of bytes that all ranks have sent.
uint64_t with_machine(
    const Grid& grid, const core::StoredModel& model, const CacheOptions& options,
    const std::function<void(RankedCpu&)>& lead, const std::function<void(size_t)>& may_follow = [](size_t) {}) {
  const auto all = rank_configs(grid);
  std::vector<std::future<uint64_t>> others;
  for (size_t rank = 1; rank < grid.n_ranks; ++rank) {
    others.push_back(std::async(std::launch::async, [&, rank] {
      RankedCpu machine(all[rank], grid.n_stages, {.n_threads = 1});
      const Runner runner(model, machine, options);
      may_follow(rank);
      machine.follow();
      return machine.sent_bytes();
    }));
  }
  uint64_t given = 0;
  {
    RankedCpu machine(all[0], grid.n_stages, {.n_threads = 1});
    lead(machine);
    given = machine.sent_bytes();
  }
  for (auto& other : others) given += other.get();
  return given;
}

// Calls `work` with rank 0's runner, which runs the model on all ranks of the grid. Returns the number of bytes sent.
uint64_t with_ranks(const Grid& grid, const core::StoredModel& model, const CacheOptions& options,
                    const std::function<void(Runner&)>& work) {
  return with_machine(grid, model, options, [&](RankedCpu& machine) {
    Runner runner(model, machine, options);
    work(runner);
  });
}

class PipelineStages : public ::testing::TestWithParam<Shape> {};

std::vector<Shape> shapes_of_several_layers() {
  std::vector<Shape> shapes = test::all_shapes();
  std::erase_if(shapes, [](const Shape& shape) { return shape.config.n_layers == 1; });
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, PipelineStages, ::testing::ValuesIn(shapes_of_several_layers()), test::shape_name);

TEST_P(PipelineStages, MatchesOneCpuExactly) {
  const core::StoredModel model = test::random_model_of(GetParam());
  const Grid grid{.n_ranks = test::most_ranks(model.config) >= 2 ? size_t{4} : size_t{2}, .n_stages = 2};
  const CacheOptions options{.type = CacheType::F16};
  const auto text = test::random_tokens(kLength, 1, model.config.vocab_size);
  Cpu one({.n_threads = 1});
  Runner alone(model, one, options);
  const auto expected = logits_of(alone, text);
  with_ranks(grid, model, options, [&](Runner& runner) { EXPECT_TRUE(same_bits(logits_of(runner, text), expected)); });
}

TEST(Ranks, AdaptersAreLoadedOnAllRanks) {
  for (const core::DType type : {core::DType::F32, core::DType::Q8_0}) {
    const auto shapes = test::all_shapes();
    const core::StoredModel model =
        test::random_model_of(*std::ranges::find_if(shapes, [&](const Shape& s) { return s.type == type; }));
    const core::Adapter adapter = test::random_adapter(model.config, 5, 4);
    const auto text = test::random_tokens(9, 2, model.config.vocab_size);
    const auto logits_with = [&](Runner& runner) {
      const int32_t number = runner.load_adapter(adapter);
      const auto sequence = runner.cache().add_sequence(number);
      auto logits = test::run(runner, test::rows_of(sequence, text));
      runner.cache().release(sequence);
      runner.unload_adapter(number);
      const auto without = test::run(runner, test::rows_of(runner.cache().add_sequence(), text));
      EXPECT_FALSE(same_bits(logits, without));
      logits.insert(logits.end(), without.begin(), without.end());
      return logits;
    };
    Cpu one({.n_threads = 1});
    Runner alone(model, one, {.n_sequences = 2});
    const auto expected = logits_with(alone);
    with_ranks({.n_ranks = 2}, model, {.n_sequences = 2},
               [&](Runner& runner) { EXPECT_TRUE(same_bits(logits_with(runner), expected)); });
  }
}

TEST(Ranks, StepsMayExceedASharedMemorySlot) {
  core::ModelConfig config = test::small_shapes()[0].config;
  config.vocab_size = 3000;  // 200 rows of logits take 2.4 MB
  const core::StoredModel model = test::random_model(config);
  const auto text = test::random_tokens(static_cast<size_t>(std::min<int64_t>(200, config.context_length)), 5, 3000);
  const auto expected = test::alone(model, text);
  for (const Grid grid : {Grid{2, 1, true}, Grid{2, 1, false}, Grid{2, 2, true}, Grid{4, 2, false}}) {
    with_ranks(grid, model, {}, [&](Runner& runner) {
      EXPECT_TRUE(same_bits(test::run(runner, test::rows_of(runner.cache().add_sequence(), text)), expected))
          << describe(grid);
    });
  }
}

TEST(Ranks, PromptsPassThePipelineInChunks) {
  const std::vector<StepRow> rows(200, StepRow{.token = 0, .table = 0, .position = 0, .needs_logits = true});
  const std::vector<BlockCopy> copies(1);
  const Step step{.rows = rows, .tables = {}, .table_starts = {}, .copies = copies, .n_logit_rows = 200, .draws = {}};
  EXPECT_EQ(pieces_of(step, 1).size(), 1U);
  const auto pieces = pieces_of(step, 2);
  EXPECT_EQ(pieces.size(), 6U);  // as many pieces as possible of at least 32 rows
  size_t n = 0;
  for (const Step& piece : pieces) {
    EXPECT_EQ(piece.rows.data(), rows.data() + n);
    EXPECT_EQ(piece.n_logit_rows, piece.rows.size());
    EXPECT_EQ(piece.copies.size(), n == 0 ? 1U : 0U);
    n += piece.rows.size();
  }
  EXPECT_EQ(n, 200U);
  EXPECT_EQ(
      pieces_of({.rows = std::span(rows).first(16), .tables = {}, .table_starts = {}, .copies = {}, .draws = {}}, 2)
          .size(),
      1U);
}

core::StoredModel model_of_layers(int64_t n) {
  core::ModelConfig config = test::small_shapes()[1].config;
  config.n_layers = n;
  return test::random_model(config);
}

// Rank 0 issues a step for each stage while the ranks of the last stage still wait and execute nothing.
TEST(Pipeline, IssuesAStepPerStageBeforeTheFirstEnds) {
  const core::StoredModel model = model_of_layers(4);
  for (const Grid grid : {Grid{2, 2}, Grid{3, 3}, Grid{4, 4}, Grid{4, 2, false}}) {
    std::promise<void> issued;
    const auto may_follow = [&, all = issued.get_future().share()](size_t rank) {
      if (rank + grid.n_ranks / grid.n_stages >= grid.n_ranks) all.wait();
    };
    const CacheOptions options{.n_sequences = 4};
    const auto lead = [&](RankedCpu& machine) {
      Runner runner(model, machine, options);
      ASSERT_EQ(runner.steps_in_flight(), grid.n_stages);
      std::vector<Issued> steps;
      std::vector<std::vector<float>> expected;
      for (size_t i = 0; i < grid.n_stages; ++i) {
        const auto text = test::random_tokens(3 + i, i, model.config.vocab_size);
        steps.push_back(runner.issue(test::rows_of(runner.cache().add_sequence(), text)));
        expected.push_back(test::alone(model, text));
      }
      issued.set_value();
      for (size_t i = 0; i < grid.n_stages; ++i) {
        EXPECT_TRUE(same_bits(runner.collect(steps[i]).logits, expected[i])) << describe(grid) << ", step " << i;
      }
    };
    with_machine(grid, model, options, lead, may_follow);
  }
}

// More steps are issued than may be in flight, and their logits are never collected. This must not block later steps.
TEST(Pipeline, UncollectedLogitsDoNotBlockSteps) {
  const core::StoredModel model = model_of_layers(4);
  const CacheOptions options{.max_positions = 10000};
  const auto text = test::random_tokens(90, 1, model.config.vocab_size);
  for (const Grid grid : {Grid{2, 2}, Grid{4, 4}}) {
    with_ranks(grid, model, options, [&](Runner& runner) {
      const auto issue = [&](size_t n_tokens, bool wants_logits) {
        const auto tokens = std::span(text).first(n_tokens);
        return runner.issue(test::rows_of(runner.cache().add_sequence(), tokens, 0, wants_logits));
      };
      const auto expected = test::run(runner, test::rows_of(runner.cache().add_sequence(), text));
      for (const size_t n_tokens : {5, 90}) {  // a step is sent in one piece, or in several
        for (const bool wants_logits : {true, false}) {
          for (size_t n = 0; n < 2 * grid.n_stages; ++n) {
            static_cast<void>(issue(5, true));
            static_cast<void>(issue(n_tokens, wants_logits));
          }
          EXPECT_TRUE(same_bits(runner.collect(issue(90, true)).logits, expected)) << describe(grid);
        }
      }
    });
  }
}

// Outputs equal those of one CPU although requests arrive, end, are canceled or preempted while steps are in flight.
TEST(Pipeline, OutputsMatchOneProcess) {
  core::StoredModel model = model_of_layers(4);
  const core::Adapter adapter = test::random_adapter(model.config, 5, 4);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    Request r{.prompt = test::random_tokens(1 + i * 29 % 60, i % 5, model.config.vocab_size),
              .options = {.max_tokens = static_cast<int64_t>(3 + i * 7 % 20),
                          .sampler = {.temperature = i % 3 == 0 ? 0.0F : 1.0F, .seed = i},
                          .adapter = i % 4 == 1 ? 0 : kNoAdapter}};
    if (i % 4 == 2) r.options.n = 3;
    if (i == 3) r.options.beams.width = 3;
    if (i % 5 == 0) r.options.speculate = 4;
    requests.push_back(std::move(r));
  }
  const auto texts_of = [&](Machine& machine, size_t n_positions) {
    Engine engine(model, machine, {.max_positions = static_cast<int64_t>(n_positions)});
    EXPECT_EQ(engine.load_adapter(adapter), 0);
    std::vector<RequestId> ids;
    for (size_t i = 0; i < requests.size(); ++i) {
      ids.push_back(engine.add(requests[i]));
      const RequestId cancelled = engine.add(requests[(i + 5) % requests.size()]);
      for (size_t n = 0; n < i % 4; ++n) engine.step();
      engine.drop(cancelled);
    }
    while (engine.step()) continue;
    std::vector<std::vector<int32_t>> texts;
    for (const RequestId id : ids) {
      for (const GenerateResult& result : engine.take_all(id)) texts.push_back(result.tokens);
    }
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
    return std::pair(texts, engine.statistics().preemptions);
  };
  Cpu one({.n_threads = 1});
  const auto expected = texts_of(one, 6000).first;
  for (const Grid grid : {Grid{2, 1}, Grid{2, 2}, Grid{3, 3}, Grid{4, 2}, Grid{4, 4}}) {
    for (const size_t n_positions : {6000, 400}) {
      const CacheOptions options{.max_positions = static_cast<int64_t>(n_positions)};
      with_machine(grid, model, options, [&](RankedCpu& machine) {
        const auto [texts, n_preemptions] = texts_of(machine, n_positions);
        EXPECT_EQ(texts, expected) << describe(grid) << ", " << n_positions << " positions";
        EXPECT_EQ(n_preemptions > 0, n_positions == 400) << describe(grid);
      });
    }
  }
}

TEST(Ranks, OrdersRoundTrip) {
  const std::vector<StepRow> rows{{.token = 3, .table = 1, .position = 7, .needs_logits = true, .adapter = 2}};
  const std::vector<BlockId> tables{4, 5};
  const std::vector<int32_t> starts{0, 1, 2};
  const Step step{.rows = rows, .tables = tables, .table_starts = starts, .copies = {}, .n_logit_rows = 1, .draws = {}};
  const auto bytes = to_bytes(order_of(1, step));
  const Order order = to_order(bytes);
  EXPECT_EQ(order.stage, 1U);
  EXPECT_EQ(order.rows[0].position, 7);
  EXPECT_EQ(order.rows[0].adapter, 2);
  EXPECT_EQ(order.tables, tables);
  EXPECT_EQ(order.table_starts, starts);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(static_cast<void>(to_order(std::span(bytes).first(n))), core::Error) << n;
  }
}

// Returns the error of rank 0's step if rank 1 runs `work` instead of following.
std::string error_of_rank_0(const Grid& grid, std::chrono::seconds timeout,
                            const std::function<void(RankedCpu&, std::promise<void>&)>& work) {
  const core::StoredModel model = test::random_model(test::small_shapes()[0].config);
  const auto all = rank_configs(grid, timeout);
  std::promise<void> rank_0_ends;
  auto other = std::async(std::launch::async, [&] {
    RankedCpu machine(all[1], grid.n_stages, {.n_threads = 1});
    const Runner runner(model, machine);
    work(machine, rank_0_ends);
  });
  std::string text;
  try {
    RankedCpu machine(all[0], grid.n_stages, {.n_threads = 1});
    Runner runner(model, machine);
    static_cast<void>(test::run(runner, test::rows_of(runner.cache().add_sequence(), std::vector<int32_t>{1, 2, 3})));
    ADD_FAILURE() << "a step without rank 1";
  } catch (const MachineLost& error) {
    text = error.what();
  }
  rank_0_ends.set_value();
  other.get();
  return text;
}

TEST(Ranks, NamesALostRank) {
  for (const Grid grid : {Grid{2, 1, true}, Grid{2, 1, false}, Grid{2, 2, true}}) {
    const std::string text = error_of_rank_0(grid, std::chrono::seconds(300), [](RankedCpu&, auto&) {});
    EXPECT_TRUE(text.starts_with("rank 1 of 2 disconnected")) << text;
  }
}

// Rank 1 sends its error message and immediately closes its connections. Rank 0 must still report this error.
TEST(Ranks, FailWithTheErrorOfAnotherRank) {
  const core::StoredModel model = test::random_model(test::small_shapes()[0].config);
  for (int i = 0; i < 20; ++i) {
    // The last reasons are longer than a message, which has 64 KiB, and are cut.
    const std::string why = "model.bin: cannot open: no such file" + std::string(i < 18 ? 0 : 100'000, '!');
    const auto all = rank_configs({.n_ranks = 2, .shared_memory = i % 2 == 0});
    auto rank_1 = std::async(std::launch::async, [&] {
      RankedCpu machine(all[1], 1, {.n_threads = 1});
      machine.run([&] { core::fail("{}", why); });
    });
    const std::string error = core::test::error_of([&] {
      RankedCpu machine(all[0], 1, {.n_threads = 1});
      const Runner runner(model, machine);
    });
    const std::string whole = "rank 1 of 2 failed: " + why;
    EXPECT_TRUE(whole.starts_with(error)) << error.substr(0, 200);
    EXPECT_GE(error.size(), std::min<size_t>(whole.size(), 65'000));
    EXPECT_ERROR(rank_1.get(), "no such file");
  }
}

std::atomic<bool> norms_fail = false;

// Rank 0 fails between two exchanges of a step, while rank 1 waits for it.
TEST(Ranks, AnErrorWithinAStepReachesTheOthers) {
  const core::StoredModel model = test::random_model(test::small_shapes()[0].config);
  kernels::Kernels failing = kernels::reference_kernels();
  failing.rms_norm = [](const float* x, const float* weight, float eps, size_t dim, float* out) {
    core::require(!norms_fail, "no memory for a norm");
    kernels::reference_kernels().rms_norm(x, weight, eps, dim, out);
  };
  for (const Grid grid : {Grid{2, 1, true}, Grid{2, 1, false}, Grid{2, 2, true}}) {
    SCOPED_TRACE(describe(grid));
    norms_fail = false;
    const auto all = rank_configs(grid, std::chrono::seconds(20));
    auto rank_1 = std::async(std::launch::async, [&] {
      RankedCpu machine(all[1], grid.n_stages, {.n_threads = 1});
      const Runner runner(model, machine);
      machine.follow();
    });
    RankedCpu machine(all[0], grid.n_stages, {.n_threads = 1, .kernels = &failing});
    Runner runner(model, machine);
    norms_fail = true;
    const auto rows = test::rows_of(runner.cache().add_sequence(), std::vector<int32_t>{1, 2, 3});
    EXPECT_ERROR(static_cast<void>(test::run(runner, rows)), "no memory for a norm");
    EXPECT_ERROR(rank_1.get(), "rank 0 of 2 failed: no memory for a norm");
  }
}

// Rank 1 is a process of its own, so that it can be stopped in the middle of a message and killed.
TEST(Ranks, NamesARankThatDiesWhileReceiving) {
  const std::vector<std::byte> message(size_t{64} << 20U);  // far more than the socket buffers can store
  const auto all = rank_configs({.n_ranks = 2});
  const pid_t rank_1 = ::fork();
  if (rank_1 == 0) {  // the child process, which never leaves this branch
    static_cast<void>(core::test::error_of([&] {
      const auto peers = Peers::connect(all[1]);
      test::stop_after_bytes(message.size() / 64);
      static_cast<void>(peers->receive(0, Channel::Orders, kForever));
    }));
    ::_exit(1);
  }
  const auto peers = Peers::connect(all[0]);
  peers->send(1, Channel::Orders, message);
  int status = 0;
  ASSERT_EQ(::waitpid(rank_1, &status, WUNTRACED), rank_1);
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(rank_1, SIGKILL);
  ::waitpid(rank_1, nullptr, 0);
  EXPECT_ERROR(peers->wait_until_taken(1, Channel::Orders), "rank 1 of 2 disconnected");
}

// After mark_failed() on a rank, its receive() throws immediately instead of waiting for a message that never comes.
TEST(Ranks, NothingWaitsAfterALostRank) {
  const auto all = rank_configs({.n_ranks = 2}, std::chrono::hours(1));
  std::promise<void> rank_0_ends;
  std::promise<void> rank_1_is_connected;
  auto rank_1 = std::async(std::launch::async, [&] {
    const auto peers = Peers::connect(all[1]);
    rank_1_is_connected.set_value();
    rank_0_ends.get_future().wait();
  });
  {
    const auto peers = Peers::connect(all[0]);
    rank_1_is_connected.get_future().wait();
    peers->mark_failed("the step failed");
    for (int i = 0; i < 2; ++i) EXPECT_ERROR(peers->receive(1, Channel::Orders, kForever), "the step failed");
  }
  rank_0_ends.set_value();
  rank_1.get();
}

TEST(Ranks, OneThatDoesNotAnswerIsNamedAfterTheTimeout) {
  for (const Grid grid : {Grid{2, 1, true}, Grid{2, 1, false}}) {
    const std::string text = error_of_rank_0(grid, std::chrono::seconds(5),
                                             [](RankedCpu&, auto& rank_0_ends) { rank_0_ends.get_future().wait(); });
    EXPECT_TRUE(text.starts_with("rank 1 of 2 did not respond within 5 s")) << text;
  }
}

TEST(Ranks, RejectsAnotherModel) {
  const auto all = rank_configs({.n_ranks = 2});
  const core::StoredModel one = test::random_model(test::small_shapes()[0].config);
  core::StoredModel other = test::random_model(test::small_shapes()[0].config);
  std::vector<std::byte> bytes(other.tensors[3].bytes.begin(), other.tensors[3].bytes.end());
  bytes[0] ^= std::byte{1};
  other.tensors[3].bytes = bytes;
  const auto load = [&](size_t rank, const core::StoredModel& model) {
    return core::test::error_of([&] {
      RankedCpu machine(all[rank], 1, {.n_threads = 1});
      const Runner runner(model, machine);
    });
  };
  auto rank_1 = std::async(std::launch::async, load, 1, std::cref(other));
  EXPECT_NE(load(0, one).find("rank 1 of 2 has a different model"), std::string::npos);
  EXPECT_NE(rank_1.get().find("rank 1 of 2 has a different model"), std::string::npos);
}

TEST(Rendezvous, NamesThoseThatDoNotCome) {
  const auto all = rank_configs({.n_ranks = 4}, std::chrono::seconds(5));
  std::optional<Rendezvous> here(all[0]);
  Rendezvous comes(all[2]);
  auto rank_2 = std::async(std::launch::async,
                           [&] { return core::test::error_of([&] { static_cast<void>(comes.gather("2")); }); });
  EXPECT_ERROR(here->gather("0"), "ranks 1, 3 of 4 did not connect to 127.0.0.1 port");
  here.reset();
  EXPECT_NE(rank_2.get().find("rank 2 of 4 got no response from rank 0"), std::string::npos);
  EXPECT_ERROR(Rendezvous(rank_configs({.n_ranks = 2}, std::chrono::seconds(1))[1]),
               "rank 1 of 2 could not reach rank 0");
  RankConfig unknown = rank_configs({.n_ranks = 2}, std::chrono::seconds(1))[1];
  unknown.address = std::string(64, 'x');  // too long for a host's name, so no server is asked for it
  EXPECT_ERROR(Rendezvous{unknown}, "rank 1 of 2 could not reach rank 0 at " + unknown.address);
  RankConfig alone = rank_configs({.n_ranks = 2}, std::chrono::seconds(1))[0];
  alone.n_local = 1;  // rank 1 is on another host
  EXPECT_ERROR(Rendezvous(alone).gather("0"), "an address that other hosts can reach, not 127.0.0.1");
}

TEST(Rendezvous, RejectsDuplicateRanksAndOtherCounts) {
  const auto all = rank_configs({.n_ranks = 3});
  const auto come = [](RankConfig world) {
    return core::test::error_of([&] { static_cast<void>(Rendezvous(world).gather("")); });
  };
  auto one = std::async(std::launch::async, come, all[1]);
  auto two = std::async(std::launch::async, come, all[1]);
  EXPECT_ERROR(Rendezvous(all[0]).gather(""), "two processes are rank 1 of 3");
  one.get();
  two.get();
  RankConfig other = all[1];
  other.n_ranks = 2;
  auto of_two = std::async(std::launch::async, come, other);
  EXPECT_ERROR(Rendezvous(all[0]).gather(""), "rank 1 was started with WORLD_SIZE=2, but rank 0 with 3");
  of_two.get();
}

TEST(Rendezvous, IgnoresOtherConnections) {
  const auto all = rank_configs({.n_ranks = 2});
  auto rank_1 = std::async(std::launch::async, [&] {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(all[1].port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    while (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) std::this_thread::yield();
    EXPECT_GT(::send(socket, "GET / HTTP/1.1\r\n\r\n------------", 30, MSG_NOSIGNAL), 0);
    auto answers = Rendezvous(all[1]).gather("one");
    ::close(socket);
    return answers;
  });
  const std::vector<std::string> expected{"zero", "one"};
  EXPECT_EQ(Rendezvous(all[0]).gather("zero"), expected);
  EXPECT_EQ(rank_1.get(), expected);
}

}  // namespace

std::vector<test::RankKind> test::rank_kinds() {
  const auto ranks = [](bool shared_memory) {
    return [shared_memory](size_t n, const core::StoredModel& model, const CacheOptions& options,
                           const std::function<void(Runner&)>& work) {
      return with_ranks({.n_ranks = n, .shared_memory = shared_memory}, model, options, work);
    };
  };
  return {{"shared_memory", {CacheType::F32}, 4, true, ranks(true)},
          {"messages", {CacheType::F16}, 4, true, ranks(false)}};
}

}  // namespace folio::infer
