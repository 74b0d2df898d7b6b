"""Sound as packages hear and make it: speechbrain's lobes (speakers, speech, separation, voices), the band-split RoFormers between their Fourier transforms,
the filterbanks of asteroid. Weights are seeded, nothing is downloaded."""

import asteroid_filterbanks
import bs_roformer
import torch
from asteroid_filterbanks import melgram_fb, pcen
from speechbrain.lobes.models import CRDNN, ECAPA_TDNN, ContextNet, DiffWave, ESPnetVGG, FastSpeech2, GatedNN, HifiGAN, MetricGAN, ResNet, RNNLM, Tacotron2, Xvector
from speechbrain.lobes.models import conv_tasnet, convolution, dual_path, resepformer, segan_model, wav2vec
from speechbrain.lobes.models.transformer import TransformerASR, TransformerSE
from speechbrain.nnet import RNN
from torch import nn

from . import alternating
from .libraries import Flat, floats

ONLY_SCRIPT = ("sb_crdnn_ligru", "sb_tacotron_encoder", "asteroid_pcen")  # squeezes of what is not one, packed sequences


def frames(width, channels_first=False, batch=1, scale=1.0):
    """Spectra by their number."""
    return lambda length, seed=0: {"frames": scale * floats(batch, *((width, length) if channels_first else (length, width)), seed=seed)}


def sound(*leading):
    """Samples by their number."""
    return lambda length, seed=0: {"sound": 0.3 * floats(1, *leading, length, seed=seed)}


def tokens(length, seed=0):
    return {"tokens": torch.randint(1, 40, (1, length), generator=torch.Generator().manual_seed(seed))}


class Then(nn.Module):
    """A network by what it calls on its inputs."""

    def __init__(self, call, *parts):
        super().__init__()
        self.call, self.parts = call, nn.ModuleList(parts)

    def forward(self, *inputs):
        return self.call(*self.parts, *inputs)


class Bands(nn.Module):
    """A RoFormer without its Fourier transforms: bands, attention over time and over bands, masks."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.expand, self.reduce = (getattr(inner, f"{way}_stream", None) or getattr(inner, f"{way}_streams") for way in ("expand", "reduce"))

    def forward(self, spectra):
        x, values = self.expand(self.inner.band_split(spectra)), {}
        for layer in self.inner.layers:
            for place, attend in enumerate(layer[-2:]):
                x = x.transpose(1, 2)
                streams, length = x.shape[:2]
                found, value = attend(x.flatten(0, 1), value_residual=values.get(place))
                values.setdefault(place, value)
                x = found.unflatten(0, (streams, length))
        x = self.inner.final_norm(self.reduce(x)) if hasattr(self.inner, "final_norm") else self.reduce(x)
        return torch.stack([estimate(x) for estimate in self.inner.mask_estimators], 1)


def encoder(kind, attention, **options):
    return TransformerASR.EncoderWrapper(asr(kind, attention, num_decoder_layers=0, **options))


def xvector():
    module = Xvector.Xvector(in_channels=40)
    for part in module.modules():
        if hasattr(part, "_get_gauss_noise"):
            part._get_gauss_noise = lambda shape, device: torch.zeros(shape)  # noise that pooling adds, even here
    return module


def asr(kind, attention, **options):
    return TransformerASR.TransformerASR(**(dict(tgt_vocab=100, input_size=80, d_model=256, nhead=4, num_encoder_layers=3, num_decoder_layers=2, d_ffn=1024, encoder_module=kind, attention_type=attention,
                                                 csgu_linear_units=1024, causal=False, normalize_before=True) | options))


def tasnet():
    """What each voice has of the sound: the masks on the filters' responses."""
    parts = conv_tasnet.Encoder(16, 256), conv_tasnet.MaskNet(256, 128, 256, 3, 5, 2, 2)
    return Then(lambda encode, mask, mixed: (lambda heard: heard * mask(heard))(encode(mixed).transpose(1, 2)), *parts)


def dual_rnn(kind):
    blocks = [dual_path.SBRNNBlock(64, 96, 1, rnn_type=kind) for _ in range(2)]
    return dual_path.Dual_Path_Model(64, 64, *blocks, num_layers=2, norm="gln" if kind == "LSTM" else "ln", K=50, num_spks=2)


def hifigan(kind):
    dilations = [[1, 3, 5]] * 3 if kind == "1" else [[1, 3]] * 3
    module = HifiGAN.HifiganGenerator(80, 1, kind, dilations, [3, 7, 11], [16, 16, 4, 4], 128, [8, 8, 2, 2])
    module.remove_weight_norm()
    return module


def fast_speech():
    size = dict(num_layers=2, num_head=2, d_model=256, ffn_dim=512, k_dim=256, v_dim=256, dropout=0.1)
    return FastSpeech2.FastSpeech2(**{f"{side}_{name}": value for side in ("enc", "dec") for name, value in size.items()}, normalize_before=False, ffn_type="1dcnn", ffn_cnn_kernel_size_list=[9, 1], n_char=40,
                                   n_mels=80, postnet_embedding_dim=256, postnet_kernel_size=5, postnet_n_convolutions=5, postnet_dropout=0.2, padding_idx=0, dur_pred_kernel_size=3, pitch_pred_kernel_size=3,
                                   energy_pred_kernel_size=3, variance_predictor_dropout=0.5)


def what_is_said(inner, symbols):
    """FastSpeech's half before its lengths: how long, how high, how loud."""
    x, everywhere = inner.encPreNet(symbols), torch.ones(*symbols.shape, 1)
    x = inner.encoder(x + inner.sinusoidal_positional_embed_encoder(x))[0]
    return inner.durPred(x, everywhere), inner.pitchPred(x, everywhere), inner.energyPred(x, everywhere)


def how_it_sounds(inner, x):
    """The half behind them."""
    spectra = inner.linear(inner.decoder(x + inner.sinusoidal_positional_embed_decoder(x))[0])
    return inner.postnet(spectra) + spectra


def critic():
    module = MetricGAN.MetricDiscriminator()
    for _ in range(10):  # spectral norms are found by steps of training
        module(floats(1, 2, 120, 257))
    return module


def heard_again(filterbank, between):
    return Then(lambda encode, decode, heard: decode(between(encode(heard))), asteroid_filterbanks.Encoder(filterbank), asteroid_filterbanks.Decoder(filterbank))


def fixed(filterbank):
    """A filterbank with its filters as they come out, without the way to them."""
    free = asteroid_filterbanks.FreeFB(filterbank.n_filters, filterbank.kernel_size, filterbank.stride)
    free._filters = nn.Parameter(filterbank.filters().detach())
    return free


ROFORMER = dict(dim=96, depth=2, time_transformer_depth=1, freq_transformer_depth=1, dim_head=32, heads=4)
MEL = dict(ROFORMER, num_bands=24, dim_freqs_in=513, stft_n_fft=1024, stft_win_length=1024, stft_hop_length=256, sample_rate=22050)
SPLIT = dict(ROFORMER, freqs_per_bands=(2,) * 16 + (8,) * 12 + (32,) * 12 + (1,), stft_n_fft=1024, stft_win_length=1024, stft_hop_length=256)

# name, what makes it, its inputs by their length, the length, another one where it is open; exporters and opsets alternate
NETWORKS = [
    ("sb_ecapa", lambda: ECAPA_TDNN.ECAPA_TDNN(80), frames(80, batch=4), 200, 131),
    ("sb_xvector", xvector, frames(40), 300, None),
    ("sb_resnet_speaker", lambda: ResNet.ResNet(80, channels=[64, 64, 128, 128], block_sizes=[2, 2, 3, 2]), frames(80, batch=4), 200, 144),
    ("sb_crdnn", lambda: CRDNN.CRDNN(input_size=40, cnn_channels=[64, 128], rnn_class=RNN.LSTM, rnn_layers=2, rnn_neurons=256), frames(40), 200, None),
    ("sb_crdnn_ligru", lambda: CRDNN.CRDNN(input_size=40, cnn_channels=[32, 64], rnn_layers=1, rnn_neurons=256, time_pooling=True), frames(40), 96, None),
    ("sb_contextnet", lambda: ContextNet.ContextNet(input_shape=(1, 200, 80), num_blocks=14, num_layers=3, out_channels=320), frames(80), 200, None),
    ("sb_conformer", lambda: encoder("conformer", "RelPosMHAXL"), frames(80), 200, None),
    ("sb_conformer_rope", lambda: encoder("conformer", "RoPEMHA"), frames(80), 160, None),
    ("sb_branchformer", lambda: encoder("branchformer", "RelPosMHAXL"), frames(80), 160, None),
    ("sb_transformer", lambda: encoder("transformer", "regularMHA"), frames(80), 240, 117),
    ("sb_hypermixing", lambda: encoder("conformer", "hypermixing"), frames(80), 160, None),
    ("sb_asr", lambda: asr("conformer", "regularMHA", num_encoder_layers=2), lambda length, seed=0: frames(80)(length, seed) | tokens(24), 120, None),
    ("sb_transformer_se", lambda: TransformerSE.CNNTransformerSE(d_model=256, output_size=257, num_layers=2, causal=False), frames(256), 200, None),
    ("sb_conv_front_end", lambda: convolution.ConvolutionFrontEnd((1, 200, 80), num_blocks=3, num_layers_per_block=2, out_channels=[64, 96, 128]), frames(80), 200, None),
    ("sb_gated", lambda: GatedNN.GatedNN((1, 200, 80), blocks=3, neurons=384), frames(80), 200, None),
    ("sb_espnet_vgg", lambda: ESPnetVGG.ESPnetVGG((1, 120, 80), rnn_layers=2, rnn_neurons=256), frames(80), 120, None),
    ("sb_rnnlm", lambda: RNNLM.RNNLM(500, rnn_neurons=512), tokens, 64, None),
    ("sb_tasnet", tasnet, sound(), 8000, None),
    ("sb_sepformer", lambda: dual_path.SepformerWrapper(encoder_out_nchannels=128, masknet_chunksize=100, masknet_numlayers=1, intra_numlayers=2, inter_numlayers=2, intra_dffn=512, inter_dffn=512), sound(), 8000, None),
    ("sb_dual_path_lstm", lambda: dual_rnn("LSTM"), frames(64, True), 600, None),
    ("sb_dual_path_gru", lambda: dual_rnn("GRU"), frames(64, True), 600, None),
    ("sb_resepformer", lambda: resepformer.ResourceEfficientSeparator(128, causal=False, num_spk=2, layer=2, segment_size=60, mem_type="av", unit=256,
                                                                      **{f"{place}_model": resepformer.SBTransformerBlock_wnormandskip(1, 128, 8, d_ffn=512, norm_before=True) for place in ("seg", "mem")}), frames(128, True), 500, None),
    ("sb_hifigan", lambda: hifigan("1"), frames(80, True, scale=0.1), 40, 27),
    ("sb_hifigan_small_blocks", lambda: hifigan("2"), frames(80, True, scale=0.1), 60, None),
    ("sb_fastspeech_text", lambda: Then(what_is_said, fast_speech()), tokens, 60, None),
    ("sb_fastspeech_spectra", lambda: Then(how_it_sounds, fast_speech()), frames(256), 160, None),
    ("sb_tacotron_encoder", lambda: Then(lambda inner, x: inner.infer(x, torch.tensor([x.shape[2]])), Tacotron2.Encoder()), frames(512, True), 60, None),
    ("sb_tacotron_postnet", Tacotron2.Postnet, frames(80, True), 200, 150),
    ("sb_metricgan", lambda: Then(lambda inner, x: inner(x, None), MetricGAN.EnhancementGenerator()), frames(257), 120, None),
    ("sb_metricgan_critic", critic, lambda length, seed=0: {"spectra": floats(1, 2, length, 257, seed=seed)}, 120, None),
    ("sb_wav2vec_front_end", wav2vec.W2VLatentExtractor, sound(), 16000, None),
    ("sb_segan", lambda: segan_model.Generator(9, False, False), lambda length, seed=0: {"sound": 0.3 * floats(1, length, 1, seed=seed)}, 16384, None),
    ("sb_diffwave", lambda: DiffWave.DiffWave(80, 10, 32, 10, 50), lambda length, seed=0: {"sound": floats(1, 1, 256 * length, seed=seed), "step": torch.tensor([7]), "spectra": floats(1, 80, length, seed=seed + 1)}, 60, None),
    ("roformer_bands", lambda: Bands(bs_roformer.BSRoformer(**SPLIT, num_residual_streams=1)), lambda length, seed=0: {"spectra": floats(1, length, 1026, seed=seed)}, 86, None),
    ("roformer_bands_streams", lambda: Bands(bs_roformer.BSRoformer(**SPLIT, num_stems=2, use_pope=True)), lambda length, seed=0: {"spectra": floats(1, length, 1026, seed=seed)}, 60, None),
    ("roformer_mel", lambda: Bands(bs_roformer.MelBandRoformer(**MEL, linear_transformer_depth=0, num_residual_streams=1)), lambda length, seed=0: {"spectra": floats(1, length, 1906, seed=seed)}, 60, None),
    ("asteroid_free", lambda: heard_again(asteroid_filterbanks.FreeFB(256, 32), torch.relu), sound(1), 16000, None),
    ("asteroid_analytic", lambda: heard_again(fixed(asteroid_filterbanks.AnalyticFreeFB(256, 64)), torch.tanh), sound(1), 16000, 11008),
    ("asteroid_sinc", lambda: heard_again(fixed(asteroid_filterbanks.ParamSincFB(128, 251, 80)), torch.tanh), sound(1), 16000, None),
    ("asteroid_mel", lambda: asteroid_filterbanks.Encoder(melgram_fb.MelGramFB(512, 400, 160, sample_rate=16000, n_mels=80)), sound(1), 16000, None),
    ("asteroid_pcen", lambda: nn.Sequential(asteroid_filterbanks.Encoder(melgram_fb.MelGramFB(512, 400, 160, sample_rate=16000)), pcen.PCEN(n_channels=40)), sound(1), 8000, None),
]


def register(position, name, make_module, make_inputs, length, other):
    shapes = [{name: value.shape for name, value in make_inputs(extent).items()} for extent in (length, other or length)]
    dynamic = {name: {axis: "length"} for name, shape in shapes[0].items() for axis, extent in enumerate(shape) if extent != shapes[1][name][axis]} or None

    @alternating(name, 1 if name in ONLY_SCRIPT else position, dynamic)
    def make():
        module = Flat(make_module())
        return (module, make_inputs(length), make_inputs(other, 1)) if dynamic else (module, make_inputs(length))


for place, row in enumerate(NETWORKS):
    register(place, *row)
