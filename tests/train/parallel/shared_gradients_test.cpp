#include "train/parallel/shared_gradients.h"

#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/train/parallel/support.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

const std::vector<std::vector<int64_t>> kShapes = {{3, 5}, {1}, {700, 431}, {16}};

std::vector<Tensor> parameters_of(int64_t rank) {
  std::vector<Tensor> all;
  for (const auto& shape : kShapes) all.push_back(torch::full(shape, static_cast<double>(rank)).requires_grad_());
  return all;
}

// Returns a rank's gradient of parameter i. Magnitudes differ between ranks, so the bits of a sum depend
// on its order.
Tensor gradient_of(int64_t rank, size_t i, double step) {
  const Tensor places = torch::arange(torch::zeros(kShapes[i]).numel(), torch::kDouble).view(kShapes[i]);
  return (torch::sin(places + static_cast<double>(rank) + step) * std::pow(10.0, static_cast<double>(rank)))
      .to(torch::kFloat);
}

// Returns the number of this process's shared memory mappings that still have a name in /dev/shm. Memory with a name
// would outlive the process.
size_t named_pieces() {
  size_t n = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    n += line.find("/dev/shm/folio-") != std::string::npos && !line.ends_with("(deleted)") ? 1 : 0;
  return n;
}

class SharedGradientsByRanks : public testing::TestWithParam<int64_t> {};

TEST_P(SharedGradientsByRanks, AreAddedInRankOrder) {
  test::on_ranks(test::mesh_of({{Axis::Data, GetParam()}}), [&](World& world) {
    Group& group = world.everyone();
    const std::vector<Tensor> parameters = parameters_of(group.index());
    const auto gradients = SharedGradients::open(parameters, {}, group);
    ASSERT_TRUE(gradients);
    group.meet();
    EXPECT_EQ(named_pieces(), 0U);  // names are removed once all ranks have opened the memory
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        // The last rank has no gradient for one parameter, like a rank whose rows selected other experts.
        const bool none = i == 3 && group.index() == group.size() - 1;
        parameters[i].mutable_grad() = none ? Tensor() : gradient_of(group.index(), i, step);
      }
      gradients->sum();
      for (size_t i = 0; i < parameters.size(); ++i) {
        Tensor sum = gradient_of(0, i, step);
        for (int64_t rank = 1; rank < group.size() - (i == 3 ? 1 : 0); ++rank) sum += gradient_of(rank, i, step);
        EXPECT_TRUE(torch::equal(parameters[i].grad(), sum)) << "parameter " << i << ", step " << step;
      }
    }
  });
}

TEST_P(SharedGradientsByRanks, BroadcastEachParameterFromItsOwner) {
  test::on_ranks(test::mesh_of({{Axis::Data, GetParam()}}), [](World& world) {
    Group& group = world.everyone();
    const std::vector<Tensor> parameters = parameters_of(group.index());
    std::vector<int64_t> owners;
    for (size_t i = 0; i < parameters.size(); ++i) owners.push_back(static_cast<int64_t>(i) % group.size());
    const auto gradients = SharedGradients::open(parameters, owners, group);
    ASSERT_TRUE(gradients);
    for (int step = 0; step < 3; ++step) {
      gradients->sum();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const torch::NoGradGuard no_grad;
        Tensor p = parameters[i];
        p.fill_(static_cast<double>(100 * step + group.index()));
      }
      gradients->share();
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE((parameters[i] == 100 * step + owners[i]).all().item<bool>()) << "parameter " << i;
        EXPECT_TRUE((parameters[i].grad() == 0).all().item<bool>());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedGradientsByRanks, testing::Values(2, 3), testing::PrintToStringParamName());

TEST(SharedGradients, AreDisabledByTheGlooTransport) {
  ::setenv("FOLIO_RANK_TRANSPORT", "gloo", 1);
  test::on_ranks(test::mesh_of({{Axis::Data, 2}}), [](World& world) {
    EXPECT_EQ(SharedGradients::open(parameters_of(0), {}, world.everyone()), nullptr);
  });
  ::setenv("FOLIO_RANK_TRANSPORT", "gluu", 1);
  EXPECT_THROW(test::on_ranks(test::mesh_of({{Axis::Data, 2}}),
                              [](World& world) { SharedGradients::open(parameters_of(0), {}, world.everyone()); }),
               core::UsageError);
  ::unsetenv("FOLIO_RANK_TRANSPORT");
}

}  // namespace
}  // namespace folio::train::parallel
