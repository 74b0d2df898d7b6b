#!/usr/bin/env python3
"""torchvision's detectors whole, with their resizing, proposals, suppression and heads: Faster, Mask and Keypoint R-CNN, RetinaNet, FCOS, SSD.

    tests/zoo/detectors.py OUT            all of them, for one picture size (_ts) and any (_ts_dyn)
    tests/zoo/detectors.py OUT NAME…      these: maskrcnn, ssdlite …

Needs torchvision; weights are seeded, scores kept so near to one another that heads have boxes to work on. Which boxes come first is therefore decided
by the last digits: `tests/zoo/run.py OUT` times them, but what it calls wrong may be two boxes that changed places (`camshaft verify` tells)."""

import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
SMALL = {"min_size": 320, "max_size": 416}
HEADS = {"box_score_thresh": 1e-5, "box_detections_per_img": 40}
SHOTS = {"score_thresh": 1e-4, "detections_per_img": 40}
# name: torchvision's, its options, the picture
DETECTORS = {
    "fasterrcnn_mobile320": ("fasterrcnn_mobilenet_v3_large_320_fpn", {"num_classes": 11, **HEADS}, (240, 320)),
    "fasterrcnn_mobile": ("fasterrcnn_mobilenet_v3_large_fpn", {"num_classes": 11, **SMALL, **HEADS}, (240, 320)),
    "fasterrcnn_r50": ("fasterrcnn_resnet50_fpn", {"num_classes": 11, **SMALL, **HEADS}, (240, 320)),
    "fasterrcnn_r50v2": ("fasterrcnn_resnet50_fpn_v2", {"num_classes": 11, **SMALL, **HEADS}, (240, 320)),
    "maskrcnn": ("maskrcnn_resnet50_fpn", {"num_classes": 11, "min_size": 256, "max_size": 320, **HEADS}, (240, 320)),
    "keypointrcnn": ("keypointrcnn_resnet50_fpn", {"num_classes": 2, "min_size": 256, "max_size": 320, **HEADS}, (240, 320)),
    "retinanet": ("retinanet_resnet50_fpn", {"num_classes": 11, **SMALL, **SHOTS}, (240, 320)),
    "fcos": ("fcos_resnet50_fpn", {"num_classes": 11, **SMALL, **SHOTS}, (240, 320)),
    "ssd300": ("ssd300_vgg16", {"num_classes": 11, **SHOTS}, (300, 300)),
    "ssdlite": ("ssdlite320_mobilenet_v3_large", {"num_classes": 11, **SHOTS}, (320, 320)),
}


def make(name):
    """The detector, its statistics those of random pictures, and a picture."""
    import torch
    import torchvision
    builder, options, extents = DETECTORS[name]
    torch.manual_seed(0)
    module = getattr(torchvision.models.detection, builder)(weights=None, weights_backbone=None, **options).eval()
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for part in getattr(module.backbone, "body", module.backbone).modules():
        if isinstance(part, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(part.weight)
    picture = torch.rand(3, *extents)
    if hasattr(module, "roi_heads"):
        for scale, part in ((0.02, module.roi_heads.box_predictor), (0.3, module.rpn.head)):
            for weights in part.parameters():
                weights.data *= scale
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        module.backbone(torch.rand(2, 3, *extents))
    return module.eval(), picture


def export(name, dynamic, folder):
    import onnx
    import torch
    import data_sets
    module, picture = make(name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    axes = {"dynamic_axes": {"image": {1: "height", 2: "width"}}} if dynamic else {}
    torch.onnx.export(module, ([picture],), str(path), dynamo=False, opset_version=17, input_names=["image"], **axes)
    reference = data_sets.session(path, optimized=False)
    outputs = reference.run(None, {"image": picture.numpy()})
    sets = folder / "test_data_set_0"
    data_sets.save_arrays(sets, "input", ["image"], [picture.numpy()])
    data_sets.save_arrays(sets, "output", [output.name for output in reference.get_outputs()], outputs)
    return len(onnx.load(path, load_external_data=False).graph.node), len(outputs[0])


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0
    os.environ.setdefault("ORT_LOGGING_LEVEL", "4")
    out, failed = pathlib.Path(sys.argv[1]), 0
    for name in sys.argv[2:] or DETECTORS:
        if name not in DETECTORS:
            sys.exit(f"no detector is called {name}: {' '.join(DETECTORS)}")
        for dynamic in (False, True):
            folder = out / f"{name}_ts{'_dyn' if dynamic else ''}"
            try:
                nodes, boxes = export(name, dynamic, folder)
                print(f"ok {folder.name}: {nodes} nodes, {boxes} boxes", flush=True)
            except Exception as error:  # whatever PyTorch or ONNX Runtime raises is the answer
                failed += 1
                print(f"FAILED {folder.name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
