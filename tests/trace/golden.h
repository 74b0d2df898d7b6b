// SPDX-License-Identifier: Apache-2.0
// Recorded answers: reading them, asking the same of our routes, comparing both.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/api.h"

namespace camshaft::golden {

struct Exchange {
  std::string url;
  int status = 200;
  std::string body;  // raw JSON text, "" when there is none
};

// The data folder beside the checkout (or CAMSHAFT_SHARED) with profiler/ in it, "" when it is
// absent.
std::string data_folder();
std::vector<Exchange> read_exchanges(const std::string& path);  // .jsonl or .jsonl.gz

// Splits "/overview?run=a&worker=b#note".
void split_url(const std::string& url, std::string& path, server::Parameters& parameters);

struct Tolerance {
  double relative = 1e-9;
  double absolute = 0;           // of numbers with a fraction
  double whole = 0;              // of whole numbers, and of those inside texts
  bool ties_as_sets = true;      // rows may differ in order
  bool recommendations = false;  // compare the texts, not only which rules fired
};

// "" when equal, else where and how the two differ first.
std::string difference(const nlohmann::json& want, const nlohmann::json& got,
                       const Tolerance& tolerance, const std::string& where = "");

}  // namespace camshaft::golden
