#pragma once

#include <CLI/CLI.hpp>

#include "cli/console.h"

namespace qkv::cli {

// One function per command: it adds the command with its options to `app`, to be run when the arguments are parsed.
// A command prints through `console` and throws CommandError; it has no other way to end.

void add_look(CLI::App& app, const Console& console);
void add_lesson(CLI::App& app, const Console& console);
void add_attend(CLI::App& app, const Console& console);
void add_tokenize(CLI::App& app, const Console& console);
void add_embed(CLI::App& app, const Console& console);
void add_info(CLI::App& app, const Console& console);
void add_inspect(CLI::App& app, const Console& console);

}  // namespace qkv::cli
