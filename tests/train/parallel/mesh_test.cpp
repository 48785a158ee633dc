#include "train/parallel/mesh.h"

#include <gtest/gtest.h>

namespace folio::train::parallel {
namespace {

TEST(Mesh, GroupsContainRanksThatDifferInOneDimension) {
  MeshShape shape;
  shape[Axis::Data] = 2;
  shape[Axis::Tensor] = 3;
  EXPECT_EQ(Mesh(shape, 4).along({Axis::Tensor}), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(Mesh(shape, 4).along({Axis::Data}), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(Mesh(shape, 4).along({}), (std::vector<int64_t>{4}));
  EXPECT_EQ(Mesh(shape, 4).along({Axis::Data, Axis::Tensor}).size(), 6U);
  EXPECT_EQ(to_string(shape), "data 2 × tensor 3");
}

}  // namespace
}  // namespace folio::train::parallel
