#include "train/parallel/group.h"

#include <torch/utils.h>

#include "tests/core/support.h"
#include "tests/train/parallel/support.h"
#include "train/parallel/launch.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// Returns a tensor whose element i is i + 100 * rank.
Tensor of_rank(int64_t rank, std::vector<int64_t> shape, torch::ScalarType type) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return (torch::arange(n, torch::kDouble).reshape(shape) + 100.0 * static_cast<double>(rank)).to(type);
}

Tensor sum_of_ranks(int64_t n_ranks, const std::vector<int64_t>& shape, torch::ScalarType type) {
  Tensor sum = torch::zeros(shape, type);
  for (int64_t rank = 0; rank < n_ranks; ++rank) sum += of_rank(rank, shape, type);
  return sum;
}

struct Case {
  int64_t n_ranks;
  torch::ScalarType type;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.n_ranks << (c.type == torch::kFloat ? "_float" : "_double");
}

class Groups : public testing::TestWithParam<Case> {
 protected:
  static void on_all(const std::function<void(Group&, int64_t, torch::ScalarType)>& body) {
    const auto [n, type] = GetParam();
    test::on_ranks(test::mesh_of({{Axis::Data, n}}),
                   [&, type = type](World& world) { body(world.everyone(), world.mesh().rank(), type); });
  }
};

void expect_same(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(torch::equal(got, expected)) << got << expected;
}

TEST_P(Groups, ReducesSumAndMaximumOverAllRanks) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    Tensor t = of_rank(rank, {3, 5}, type);
    group.sum(t);
    expect_same(t, sum_of_ranks(group.size(), {3, 5}, type));

    Tensor columns = of_rank(rank, {5, 3}, type).t();  // not contiguous
    group.sum(columns);
    expect_same(columns, sum_of_ranks(group.size(), {5, 3}, type).t());

    const auto n = static_cast<double>(group.size());
    EXPECT_EQ(group.sum(static_cast<double>(rank)), n * (n - 1) / 2);
    EXPECT_EQ(group.largest(-static_cast<double>(rank)), 0.0);
    EXPECT_EQ(group.largest(static_cast<double>(rank)), n - 1);
  });
}

TEST_P(Groups, ReducesToARankAndBroadcasts) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    for (int64_t root = 0; root < group.size(); ++root) {
      Tensor t = of_rank(rank, {7}, type);
      group.sum_at(t, root);
      const Tensor expected = sum_of_ranks(group.size(), {7}, type);
      if (group.index() == root) expect_same(t, expected);
      group.broadcast(t, root);
      expect_same(t, expected);
    }
  });
}

TEST_P(Groups, AllGatherConcatenates) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      std::vector<Tensor> all;
      for (int64_t r = 0; r < group.size(); ++r) all.push_back(of_rank(r, {2, 3, 4}, type));
      expect_same(group.gather(of_rank(rank, {2, 3, 4}, type), dim), torch::cat(all, dim));
    }
  });
}

TEST_P(Groups, ReduceScatterGivesEachRankItsPart) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    const std::vector<int64_t> shape{2 * group.size(), 3 * group.size()};
    const Tensor sum = sum_of_ranks(group.size(), shape, type);
    for (int64_t dim = 0; dim < 2; ++dim) {
      expect_same(group.sum_scatter(of_rank(rank, shape, type), dim), sum.chunk(group.size(), dim)[rank]);
    }
  });
}

TEST_P(Groups, AllToAllDeliversRows) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    // Rank r sends (r + i) % 3 rows to rank i, so that some ranks send no rows to some others.
    const auto n_rows = [](int64_t from, int64_t to) { return (from + to) % 3; };
    std::vector<int64_t> sent, received;
    std::vector<Tensor> out{torch::empty({0, 2}, type)}, expected{torch::empty({0, 2}, type)};
    for (int64_t i = 0; i < group.size(); ++i) {
      sent.push_back(n_rows(rank, i));
      received.push_back(n_rows(i, rank));
      out.push_back(of_rank(10 * rank + i, {sent.back(), 2}, type));
      expected.push_back(of_rank(10 * i + rank, {received.back(), 2}, type));
    }
    expect_same(group.exchange(torch::cat(out), sent, received), torch::cat(expected));

    // A call in which no rank sends rows must work, too.
    const std::vector<int64_t> none(static_cast<size_t>(group.size()), 0);
    expect_same(group.exchange(torch::empty({0, 2}, type), none, none), torch::empty({0, 2}, type));
  });
}

TEST_P(Groups, SendMatchesReceivesByTag) {
  on_all([](Group& group, int64_t rank, torch::ScalarType type) {
    if (group.size() == 1) return;
    const int64_t n = group.size(), next = (rank + 1) % n, before = (rank + n - 1) % n;
    const Tensor a = of_rank(rank, {3}, type), b = of_rank(rank, {2, 2}, type);
    Tensor got_a = torch::empty({3}, type), got_b = torch::empty({2, 2}, type);
    // Receives are issued in the opposite order of the sends. The tags 1 and 2 must pair them.
    Pending in_b = group.receive(got_b, before, 2), in_a = group.receive(got_a, before, 1);
    Pending out_a = group.send(a, next, 1), out_b = group.send(b, next, 2);
    in_b.wait();
    in_a.wait();
    out_a.wait();
    out_b.wait();
    expect_same(got_a, of_rank(before, {3}, type));
    expect_same(got_b, of_rank(before, {2, 2}, type));
    group.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Groups,
                         testing::Values(Case{1, torch::kFloat}, Case{2, torch::kFloat}, Case{3, torch::kDouble},
                                         Case{4, torch::kFloat}, Case{5, torch::kDouble}),
                         testing::PrintToStringParamName());

TEST(Group, MovesTypesThatGlooCannotSum) {
  test::on_ranks(test::mesh_of({{Axis::Data, 2}}), [](World& world) {
    Group& group = world.everyone();
    const Tensor t = torch::full({2, 3}, world.mesh().rank() + 1, torch::kBFloat16);
    const Tensor all = group.gather(t, 0);
    EXPECT_EQ(all.sum().item<double>(), 18.0);
    Tensor flag = torch::full({}, world.mesh().rank() == 1, torch::kBool);
    group.broadcast(flag, 1);
    EXPECT_TRUE(flag.item<bool>());
  });
}

TEST(Group, CountsSentBytes) {
  test::on_ranks(test::mesh_of({{Axis::Data, 4}}), [](World& world) {
    Group& group = world.everyone();
    const auto sent_by = [&](const std::function<void()>& call) {
      const int64_t before = group.bytes_sent();
      call();
      return group.bytes_sent() - before;
    };
    Tensor t = torch::zeros({8}, torch::kFloat);  // 32 bytes on each of four ranks
    EXPECT_EQ(sent_by([&] { group.sum(t); }), 2 * 32 * 3 / 4);
    EXPECT_EQ(sent_by([&] { static_cast<void>(group.gather(t, 0)); }), 32 * 3);
    EXPECT_EQ(sent_by([&] { static_cast<void>(group.sum_scatter(t, 0)); }), 32 * 3 / 4);
    EXPECT_EQ(sent_by([&] { static_cast<void>(group.exchange(t, {2, 2, 2, 2}, {2, 2, 2, 2})); }), 3 * 2 * 4);
    // A broadcast is a tree: the root sends twice, and one receiver sends once. All ranks except the root receive once.
    Tensor sends = torch::full({1}, sent_by([&] { group.broadcast(t, 1); }), torch::kInt64);
    group.sum(sends);
    EXPECT_EQ(sends.item<int64_t>(), 3 * 32);
  });
}

TEST(FirstLine, SaysWhatToDoWithoutMemory) {
  EXPECT_EQ(first_line(std::bad_alloc()), "out of memory; use a smaller model, batch or context");
  EXPECT_EQ(first_line(std::runtime_error("a\nb")), "a");
}

TEST(Launch, NamesAnUnknownHost) {
  const std::string name(64, 'x');  // too long for a host's name, so no server is asked for it
  const Launch launch{.rank = 1, .n_ranks = 2, .address = name, .port = 29500};
  EXPECT_ERROR(static_cast<void>(connect_store(launch, false, std::chrono::milliseconds(1))),
               "rank 1: MASTER_ADDR=" + name + ": cannot resolve this host");
}

TEST(Group, NamesAMissingRank) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(core::test::error_of<RankLost>([&] {
              const Group group(store, "ranks 0, 3", {0, 3}, 0, std::chrono::milliseconds(300));
            }),
            "ranks 0, 3: rank 3 did not connect within 0.3 s");
}

TEST(Group, AbsentRanksCauseATimeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Group group(store, "ranks 0, 1", {0, 1}, rank, std::chrono::seconds(10));
      Tensor t = torch::ones({4});
      group.sum(t);
      if (rank == 1) return;
      const std::string message = core::test::message_of<RankLost>([&] { group.sum(t); });
      EXPECT_TRUE(message.starts_with("ranks 0, 1, all-reduce: ")) << message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace folio::train::parallel
