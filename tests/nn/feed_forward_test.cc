#include "qkv/nn/feed_forward.h"

#include "nn/layer_support.h"

namespace qkv::test {
namespace {

TEST(FeedForward, AgreesWithDoubleForEachActivation) {
  Random random(1);
  FeedForward layer{.up_proj = random_linear(random, 45, 17), .down_proj = random_linear(random, 17, 45)};
  const auto x = random.tensor<3>({2, 9, 17});
  for (Activation activation : {Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh}) {
    layer.activation = activation;
    SCOPED_TRACE(static_cast<int>(activation));
    expect_near(forward(layer, x), feed_forward_reference(layer, to_double(x.view())), 4e-6);
  }
}

TEST(FeedForward, AppliesTheActivationOnceAndBetweenTheLayers) {
  FeedForward layer{.up_proj = identity_linear(2), .down_proj = identity_linear(2)};
  layer.down_proj.weight(0, 0) = -1;
  layer.activation = Activation::kRelu;
  const auto out = forward(layer, tensor_of<3>({1, 1, 2}, {3, -3}));
  EXPECT_EQ(values(out), (std::vector<float>{-3, 0}));  // a second ReLU would make the first one 0
}

TEST(FeedForward, RefusesLayersThatDoNotFitTogether) {
  Random random(2);
  const FeedForward layer{.up_proj = random_linear(random, 8, 4), .down_proj = random_linear(random, 4, 7)};
  const Tensor<float, 3> x({1, 1, 4}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }),
              holds("feed_forward: down_proj.weight.shape[1] (ffn_dim): got 7, expected 8"));
}

TEST(FeedForward, RefusesAnInputOfAnotherWidth) {
  Random random(3);
  const FeedForward layer{.up_proj = random_linear(random, 8, 4), .down_proj = random_linear(random, 4, 8)};
  const Tensor<float, 3> x({1, 1, 5}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("x.shape[2] (in_dim): got 5, expected 4"));
}

}  // namespace
}  // namespace qkv::test
