"""What is compared with what: one row per published array, and why the other methods are compared with none."""

from tests.methods import parity
from tests.methods.parity import Comparison, Source

CHEFER_BERT = Source("hila-chefer/Transformer-Explainability", "c3e578f", "chefer_bert.npz")
CHEFER_VIT = Source("hila-chefer/Transformer-Explainability", "c3e578f", "chefer_vit.npz")
ATTATTR = Source("YRdddream/attattr", "f5a7396", "attattr_bert.npz")
ALTI = Source("mt-upc/transformer-contributions", "4f89039", "published/alti.npz")
ATTCAT = Source("qiangyao1988/AttCAT", "441262f", "published/attcat.npz")
FLOW = Source("samiraabnar/attention_flow", "8044f53", "published/attention_flow.npz")
DECOMPX = Source("mohsenfayyaz/DecompX", "b6bddf0", "published/decompx.npz")
GENERIC = Source("hila-chefer/Transformer-MM-Explainability", "58eaea8", "published/generic_attention.npz")
GLOBENC = Source("mohsenfayyaz/GlobEnc", "a26b38b", "published/globenc.npz")
KOBAYASHI = Source("gorokoba560/norm-analysis-of-transformer", "5dc8fb3", "published/kobayashi.npz")
LXT = Source("rachtibat/LRP-eXplains-Transformers", "f043441", "published/lxt_bert.npz")
VALUE_ZEROING = Source("hmohebbi/ValueZeroing", "57d448d", "published/value_zeroing.npz")

LAST, SECOND, ALL_BLOCKS = "readout.start_layer=-1", "readout.start_layer=1", "readout.normalize=none"
LAST_ROW = ("readout._target_=methods.readouts.last_layer.LastLayer", "~readout.start_layer", "~readout.normalize")
RELEVANCE = "edges._target_=methods.edges.relevance.Relevance"
GRADIENT = "edges._target_=methods.edges.gradient.Gradient"
MATRIX = (-2, -1)


def _chefer(method, what, source, key, read, *settings, **options):
    return Comparison(method, what, source, "{}/" + key, read, settings, **options)


def _scores_bert(method, key, *settings, read=parity.tokens, **options):
    return _chefer(method, "token scores", CHEFER_BERT, key, read, *settings, places=(0,), content=True, **options)


def _scores_vit(method, key, *settings, read=parity.patches, **options):
    return _chefer(method, "patch scores", CHEFER_VIT, key, read, *settings, **options)


def _edges(source, key, *settings):
    places = MATRIX if source is CHEFER_BERT else ()
    return _chefer("raw_attention", "edge scores", source, key, parity.edges, *settings, places=places)


def _published(method, what, source, key, read, *settings, places=(0,), note=""):
    return Comparison(method, what, source, "{}/" + key, read, settings, places, note=note)


CHEFER = [
    comparison
    for source in (CHEFER_BERT, CHEFER_VIT)
    for comparison in (
        _edges(source, "attn"),
        _edges(source, "attn_grad", GRADIENT),
        _edges(source, "attn_cam", RELEVANCE),
        _edges(source, "attn_cam_orig", RELEVANCE, "+edges.rules=lrp"),
    )
] + [
    _scores_bert("transformer_attribution", "transformer_attribution"),
    _scores_bert("transformer_attribution", "transformer_attribution_last", LAST),
    _scores_bert("partial_lrp", "partial_lrp"),
    _scores_bert("lrp", "lrp"),
    _scores_bert("raw_attention", "last_attn"),
    _scores_bert("rollout", "rollout"),
    _scores_bert(
        "attention_gradcam",
        "attn_gradcam",
        read=parity.min_max_of_the_map,
        unpadded=True,
        note="after the published rescaling; the mean there takes in cells of padding, so that the padded input is left out",
    ),
    _scores_vit("transformer_attribution", "transformer_attribution", ALL_BLOCKS),
    _scores_vit("transformer_attribution", "transformer_attribution_s1", ALL_BLOCKS, SECOND),
    _scores_vit("transformer_attribution", "transformer_attribution_last", ALL_BLOCKS, LAST),
    _scores_vit("rollout", "rollout"),
    _scores_vit("rollout", "rollout_s1", SECOND),
    _scores_vit("raw_attention", "attn_last_layer"),
    _scores_vit("partial_lrp", "lrp_last_layer"),
    _scores_vit("partial_lrp", "lrp_second_layer", "readout.layer=1"),
    _scores_vit("transformer_attribution", "lrp_last_layer_ablation", "edges.rules=lrp", *LAST_ROW),
    _scores_vit(
        "attention_gradcam",
        "attn_gradcam",
        "edges.mean_over=read_row",
        read=parity.min_max,
        note="after the published rescaling",
    ),
]

HAO = [
    Comparison("attattr", "edge scores", ATTATTR, "attr_{}", parity.edges, places=MATRIX),
    Comparison("raw_attention", "edge scores", ATTATTR, "att_{}", parity.edges, places=MATRIX),
    Comparison("attattr", "head scores", ATTATTR, "head_max_{}", parity.heads),
    Comparison("attattr", "head scores, summed", ATTATTR, "head_importance_sum", parity.sum_over_examples),
    Comparison("attattr", "head scores, averaged", ATTATTR, "head_importance_mean", parity.mean_over_examples),
    *(
        Comparison("taylor", what, ATTATTR, f"taylor_{key}{suffix}", read, (f"objective={objective}",))
        for objective, suffix in (("logits", ""), ("loss", "_loss"))
        for what, key, read in (
            ("head scores, summed", "raw", parity.sum_over_examples),
            ("head importance", "importance", parity.aggregated),
        )
    ),
    Comparison("attattr", "logits of the pruned model", ATTATTR, "pruned_logits_attr_{}", parity.pruned("attr")),
    Comparison("taylor", "logits of the pruned model", ATTATTR, "pruned_logits_taylor_{}", parity.pruned("taylor")),
]

AUTHORS = [
    _published("alti", "edge scores", ALTI, "contributions_noeps", parity.joint_edges, places=MATRIX),
    _published("alti", "token scores", ALTI, "rollout_noeps", parity.tokens),
    _published("attention_norm_residual", "token scores", ALTI, "norm_rollout", parity.tokens),
    _published("attcat", "token scores", ATTCAT, "attcat", parity.tokens),
    _published("rollout", "token scores", FLOW, "rollout", parity.tokens),
    _published(
        "attention_flow", "token scores", FLOW, "flow", parity.share_of_sum, note="after dividing ours by their sum"
    ),
    _published("decompx", "token scores of all classes", DECOMPX, "absdot", parity.every_class),
    _published("decompx", "token scores of all classes", DECOMPX, "nobias", parity.every_class, "bias=apart"),
    _published(
        "decompx",
        "token scores of all classes",
        DECOMPX,
        "absdot_zero_value_bias",
        parity.every_class_without_value_bias,
        note="value biases set to 0",
    ),
    _published("generic_attention", "token scores", GENERIC, "R", parity.tokens),
    _published("globenc", "edge scores", GLOBENC, "nenc", parity.joint_edges, places=MATRIX),
    _published("globenc", "token scores", GLOBENC, "globenc_cls_row", parity.tokens),
    _published(
        "attention_norm",
        "norms of f(x)",
        KOBAYASHI,
        "2020/transformed_norm",
        parity.per_attention,
        "edges.heads=each",
        places=(-1,),
        note="edge scores divided by attention",
    ),
    _published(
        "attention_norm",
        "edge scores",
        KOBAYASHI,
        "2020/weighted_norm",
        parity.edges,
        "edges.heads=each",
        places=MATRIX,
    ),
    _published(
        "attention_norm", "edge scores", KOBAYASHI, "2020/summed_weighted_norm", parity.joint_edges, places=MATRIX
    ),
    _published(
        "attention_norm_residual",
        "edge scores",
        KOBAYASHI,
        "2021/residual_weighted_norm",
        parity.joint_edges,
        "edges.through=residual",
        places=MATRIX,
    ),
    _published(
        "attention_norm_residual", "edge scores", KOBAYASHI, "2021/post_ln_norm", parity.joint_edges, places=MATRIX
    ),
    _published("attnlrp", "token scores", LXT, "attnlrp", parity.tokens, "rules.epsilon=0.0"),
    _published("value_zeroing", "edge scores", VALUE_ZEROING, "scores", parity.joint_edges, places=MATRIX),
    _published("value_zeroing", "token scores", VALUE_ZEROING, "rollout", parity.tokens),
]

COMPARISONS = (*CHEFER, *HAO, *AUTHORS)
