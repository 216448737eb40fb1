#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/model_folder.h"
#include "qkv/core/executor.h"
#include "qkv/kernels/target.h"
#include "viewer/display_text.h"
#include "viewer/json.h"

namespace qkv::cli {
namespace {

struct Info {
  std::string target, target_cap;  // the cap is empty where there is none
  std::vector<std::string> targets;
  Index num_threads = 1, num_processors = 1;
  std::string model_folder;
  bool has_model = false;
};

Info collect() {
  Info info;
  info.target = kernels::active_target();
  for (const auto target : kernels::supported_targets()) info.targets.emplace_back(target);
  if (const char* cap = std::getenv("QKV_TARGET")) info.target_cap = cap;
  info.num_threads = default_num_threads();
  info.num_processors = num_available_processors();
  info.model_folder = default_model_folder().value_or("");
  std::error_code ignored;
  info.has_model = std::filesystem::exists(info.model_folder + "/config.json", ignored);
  return info;
}

std::string to_text(const Info& info) {
  std::string targets;
  for (const std::string& target : info.targets) targets += (targets.empty() ? "" : ", ") + target;
  std::string text = "qkv " QKV_VERSION "\n";
  text +=
      "SIMD target    " + info.target + (info.target_cap.empty() ? "" : " (QKV_TARGET=" + info.target_cap + ")") + "\n";
  text += "SIMD targets   " + targets + " (built in, and this processor has them)\n";
  text += "threads        " + std::to_string(info.num_threads) + " (of " + std::to_string(info.num_processors) +
          " processors; QKV_NUM_THREADS or --threads sets it)\n";
  text += "default model  " + viewer::printable(info.model_folder) +
          (info.has_model ? "" : " (not there: `make model` fetches it)") + "\n";
  return text;
}

viewer::Json to_json(const Info& info) {
  viewer::Json json = {{"version", QKV_VERSION},
                       {"target", info.target},
                       {"targets", info.targets},
                       {"target_cap", nullptr},
                       {"threads", info.num_threads},
                       {"processors", info.num_processors},
                       {"model", {{"folder", info.model_folder}, {"present", info.has_model}}}};
  if (!info.target_cap.empty()) json["target_cap"] = info.target_cap;
  return json;
}

}  // namespace

void add_info(CLI::App& app, const Console& console) {
  auto json = std::make_shared<bool>(false);
  CLI::App& command = *app.add_subcommand("info", "Say what this qkv is and what it runs with");
  command.add_flag("--json", *json, "Print one JSON object");
  set_help(command, {.usage = "qkv info [--json]",
                     .examples = "qkv info\nQKV_TARGET=avx2 qkv info\nqkv info --json",
                     .notes = "QKV_TARGET=NAME caps the SIMD target: nothing better than NAME is used."});
  command.callback([json, &console] {
    const Info info = blame(ExitCode::kUsage, collect);
    console.print(*json ? viewer::to_line(to_json(info)) : to_text(info));
  });
}

}  // namespace qkv::cli
