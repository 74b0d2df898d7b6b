// SPDX-License-Identifier: Apache-2.0
// The two functions ONNX Runtime looks up in a plugin library.
#include "ep/provider.h"

namespace abi = camshaft::ep::abi;

extern "C" {

__attribute__((visibility("default"))) abi::Status* CreateEpFactories(const char* name,
                                                                      const void* api_base,
                                                                      const abi::Logger* logger,
                                                                      abi::EpFactory** factories,
                                                                      size_t most, size_t* count) {
  return camshaft::ep::create_factories(name, api_base, logger, factories, most, count);
}

__attribute__((visibility("default"))) abi::Status* ReleaseEpFactory(abi::EpFactory* factory) {
  return camshaft::ep::release_factory(factory);
}
}
