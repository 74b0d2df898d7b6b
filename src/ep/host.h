// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime as this plugin sees it: the version agreed on, its function tables, errors in both
// directions.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ep/abi.h"

namespace camshaft::ep {

class Host {
 public:
  // The tables of the newest version both know. Null, with `refusal` set where the host can make
  // one: it is older than abi::kOldest.
  static std::unique_ptr<Host> negotiate(const void* api_base, abi::Status** refusal);

  uint32_t version = 0;
  uint32_t offered = 0;      // the host's own, which may be newer
  std::string version_text;  // "1.31.1"
  abi::Table api, ep_api, editor;

  // Takes what a function of the host returned.
  Status take(abi::Status* status) const;
  abi::Status* give(const Status& status) const;
  void log(const abi::Logger* logger, int level, const std::string& text) const;

  template <class Slot, class... In>
  Status call(Slot slot, In... in) const {
    return take(api(slot, in...));
  }
  // What a function of the host hands out by its last parameter.
  template <class Out, class Slot, class... In>
  Result<Out> get(Slot slot, In... in) const {
    Out out{};
    CAMSHAFT_TRY(take(api(slot, in..., &out)));
    return out;
  }
  // A list the host hands out in two steps: how many, then all.
  template <class Item, class CountSlot, class ListSlot, class Owner>
  Result<std::vector<Item>> list(CountSlot count_slot, ListSlot list_slot,
                                 const Owner* owner) const {
    CAMSHAFT_ASSIGN(const size_t count, get<size_t>(count_slot, owner));
    std::vector<Item> items(count);
    if (count > 0) CAMSHAFT_TRY(take(api(list_slot, owner, items.data(), count)));
    return items;
  }
};

// What `body` (a Status) says, as the host takes it; no exception leaves.
template <class Body>
abi::Status* guarded(const Host& host, const Body& body) noexcept {
  try {
    return host.give(body());
  } catch (const std::bad_alloc&) {
    return host.api(abi::api::kCreateStatus, abi::kFail, "Camshaft: out of memory");
  } catch (const std::exception& error) {
    return host.api(abi::api::kCreateStatus, abi::kFail, error.what());
  }
}

}  // namespace camshaft::ep
