#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "viewer/display_text.h"
#include "viewer/json.h"

namespace qkv::cli {
namespace {

using viewer::Json;

bool is_npy(const std::string& path) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.starts_with(kMagic) || path.ends_with(".npy");
}

Json inspect_npy(const std::string& path) {
  const NpyFile file(path);
  return {{"format", "npy"},
          {"tensors", {{{"dtype", file.descr()}, {"shape", file.shape()}, {"fortran_order", file.fortran_order()}}}}};
}

Json inspect_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  Json tensors = Json::array();
  for (const SafetensorsInfo& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata()) metadata[key] = value;
  return {{"format", "safetensors"}, {"tensors", std::move(tensors)}, {"metadata", std::move(metadata)}};
}

std::string to_text(const Json& json) {
  Index widest = 0;
  const auto name_of = [](const Json& tensor) { return viewer::printable(tensor.value("name", std::string())); };
  for (const Json& tensor : json["tensors"]) widest = std::max(widest, viewer::display_width(name_of(tensor)));
  std::string text;
  for (const Json& tensor : json["tensors"]) {
    const std::string name = widest == 0 ? "" : viewer::pad_right(name_of(tensor), widest) + "  ";
    const std::string dtype = viewer::pad_right(viewer::printable(tensor["dtype"].get<std::string>()), 5);
    const bool is_fortran = tensor.value("fortran_order", false);
    text += name + dtype + " " + tensor["shape"].dump() + (is_fortran ? "  Fortran order" : "") + "\n";
  }
  if (json.contains("metadata"))
    for (const auto& [key, value] : json["metadata"].items())
      text += "metadata " + viewer::printable(key) + ": " + viewer::printable(value.get<std::string>()) + "\n";
  return text;
}

}  // namespace

void add_inspect(CLI::App& app, const Console& console) {
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("inspect", "List the tensors of a safetensors or .npy file");
  command.add_option("FILE", options->path, "The file")->required();
  command.add_flag("--json", options->json, "Print one JSON object: format, tensors (name, dtype, shape), metadata");
  set_help(command, {.usage = "qkv inspect FILE [--json]",
                     .examples = "qkv inspect model.safetensors\nqkv inspect q.npy --json",
                     .notes = ""});
  command.callback([options, &console] {
    const Json json = blame(ExitCode::kInput, [&] {
      return is_npy(options->path) ? inspect_npy(options->path) : inspect_safetensors(options->path);
    });
    console.print(options->json ? viewer::to_line(json) : to_text(json));
  });
}

}  // namespace qkv::cli
