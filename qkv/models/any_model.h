#pragma once

#include <variant>

#include "qkv/models/bert.h"

namespace qkv {

/// A model of any type that qkv can run.
using AnyModel = std::variant<Bert>;

}  // namespace qkv
