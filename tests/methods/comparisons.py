"""What is compared with what: one row per published array, and why the other methods are compared with none."""

from tests.methods import parity_reads as reads
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
LAST_ROW = ("readout._target_=methods.readouts.read_row.ReadRow",)
MATRIX = (-2, -1)
MASK_SUM = "rules={_target_: methods.propagation.rule_sets.lrp, mask: sum}"


def _chefer(method, what, source, key, read, *settings, **options):
    return Comparison(method, what, source, "{}/" + key, read, settings, **options)


def _scores_bert(method, key, *settings, read=reads.tokens, **options):
    return _chefer(method, "token scores", CHEFER_BERT, key, read, *settings, places=(0,), content=True, **options)


def _scores_vit(method, key, *settings, read=reads.patches, **options):
    return _chefer(method, "patch scores", CHEFER_VIT, key, read, *settings, **options)


def _edges(method, source, key, *settings):
    places = MATRIX if source is CHEFER_BERT else ()
    return _chefer(method, "edge scores", source, key, reads.edges, *settings, places=places)


def _published(method, what, source, key, read, *settings, places=(0,), note=""):
    return Comparison(method, what, source, "{}/" + key, read, settings, places, note=note)


CHEFER = [
    comparison
    for source in (CHEFER_BERT, CHEFER_VIT)
    for comparison in (
        _edges("raw_attention", source, "attn"),
        _edges("attention_gradient", source, "attn_grad"),
        _edges("partial_lrp", source, "attn_cam", "edges.rules=chefer2021", "edges.part=signed"),
        _edges("partial_lrp", source, "attn_cam_orig", "edges.part=signed"),
    )
] + [
    _scores_bert("transformer_attribution", "transformer_attribution"),
    _scores_bert("transformer_attribution", "transformer_attribution_last", LAST),
    _scores_bert("transformer_attribution_last", "transformer_attribution_last"),
    _scores_bert("partial_lrp", "partial_lrp"),
    _scores_bert("lrp", "lrp"),
    _scores_bert("lrp", "lrp", MASK_SUM),
    _scores_bert("raw_attention", "last_attn"),
    _scores_bert("rollout", "rollout"),
    _scores_bert(
        "attention_gradcam",
        "attn_gradcam",
        read=reads.min_max_of_the_map,
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
    _chefer("full_lrp", "pixel scores", CHEFER_VIT, "full_lrp", reads.pixels),
    _scores_vit("transformer_attribution", "lrp_last_layer_ablation", "edges.rules=lrp", *LAST_ROW),
    _scores_vit(
        "attention_gradcam",
        "attn_gradcam",
        "edges.mean_over=read_row",
        read=reads.min_max,
        note="after the published rescaling",
    ),
]

HAO = [
    Comparison("attattr", "edge scores", ATTATTR, "attr_{}", reads.edges, places=MATRIX),
    Comparison("raw_attention", "edge scores", ATTATTR, "att_{}", reads.edges, places=MATRIX),
    Comparison("attattr", "head scores", ATTATTR, "head_max_{}", reads.heads),
    Comparison("attattr", "head scores, summed", ATTATTR, "head_importance_sum", reads.sum_over_examples),
    Comparison("attattr", "head scores, averaged", ATTATTR, "head_importance_mean", reads.mean_over_examples),
    *(
        Comparison("taylor", what, ATTATTR, f"taylor_{key}{suffix}", read, (f"objective={objective}",))
        for objective, suffix in (("logits", ""), ("loss", "_loss"))
        for what, key, read in (
            ("head scores, summed", "raw", reads.sum_over_examples),
            ("head importance", "importance", reads.aggregated),
        )
    ),
    Comparison("attattr", "logits of the pruned model", ATTATTR, "pruned_logits_attr_{}", reads.pruned("attr")),
    Comparison("taylor", "logits of the pruned model", ATTATTR, "pruned_logits_taylor_{}", reads.pruned("taylor")),
]

AUTHORS = [
    _published("alti", "edge scores", ALTI, "contributions_noeps", reads.joint_edges, places=MATRIX),
    _published("alti", "token scores", ALTI, "rollout_noeps", reads.tokens),
    _published("attention_norm_residual", "token scores", ALTI, "norm_rollout", reads.tokens),
    _published("attcat", "token scores", ATTCAT, "attcat", reads.tokens),
    _published("rollout", "token scores", FLOW, "rollout", reads.tokens),
    _published(
        "attention_flow", "token scores", FLOW, "flow", reads.share_of_sum, note="after dividing ours by their sum"
    ),
    _published("decompx", "token scores of all classes", DECOMPX, "absdot", reads.every_class),
    _published("decompx", "token scores of all classes", DECOMPX, "nobias", reads.every_class, "bias=apart"),
    _published(
        "decompx",
        "token scores of all classes",
        DECOMPX,
        "absdot_zero_value_bias",
        reads.every_class_without_value_bias,
        note="value biases set to 0",
    ),
    _published("generic_attention", "token scores", GENERIC, "R", reads.tokens),
    _published("globenc", "edge scores", GLOBENC, "nenc", reads.joint_edges, places=MATRIX),
    _published("globenc", "token scores", GLOBENC, "globenc_cls_row", reads.tokens),
    _published(
        "attention_norm",
        "norms of f(x)",
        KOBAYASHI,
        "2020/transformed_norm",
        reads.per_attention,
        "edges.heads=each",
        places=(-1,),
        note="edge scores divided by attention",
    ),
    _published(
        "attention_norm",
        "edge scores",
        KOBAYASHI,
        "2020/weighted_norm",
        reads.edges,
        "edges.heads=each",
        places=MATRIX,
    ),
    _published(
        "attention_norm", "edge scores", KOBAYASHI, "2020/summed_weighted_norm", reads.joint_edges, places=MATRIX
    ),
    _published(
        "attention_norm_residual",
        "edge scores",
        KOBAYASHI,
        "2021/residual_weighted_norm",
        reads.joint_edges,
        "edges.through=residual",
        places=MATRIX,
    ),
    _published(
        "attention_norm_residual", "edge scores", KOBAYASHI, "2021/post_ln_norm", reads.joint_edges, places=MATRIX
    ),
    _published("attnlrp", "token scores", LXT, "attnlrp", reads.tokens, "rules.epsilon=0.0"),
    _published("value_zeroing", "edge scores", VALUE_ZEROING, "scores", reads.joint_edges, places=MATRIX),
    _published("value_zeroing", "token scores", VALUE_ZEROING, "rollout", reads.tokens),
]

COMPARISONS = (*CHEFER, *HAO, *AUTHORS)

NOT_COMPARED = {
    "no code of the authors is known, and others disagree which token an edge scores (`readout.scored`)": ("grad_sam",),
    "equal to captum's own classes on the same model (`test_captum.py`)": (
        "gradient_norm",
        "gradient_x_input",
        "integrated_gradients",
        "leave_one_out",
        "occlusion",
    ),
    "captum's own code draws and fits; what it draws is fitted by hand (`test_lime.py`, `test_kernel_shap.py`), and "
    "`kernel_shap` of few units is the exact Shapley value": ("captum", "kernel_shap", "lime", "shapley_sampling"),
    "published code exists, but nothing of what it gives lies with the golden numbers; transcribed rule by rule": (
        "conservative_lrp",
        "lrp_alpha_beta",
        "lrp_epsilon",
        "lrp_gamma",
        "deeplift",
    ),
    "an ablation without published numbers; its edges are the product of published attention and relevance "
    "(`tests/methods/test_parity.py`)": ("attention_x_relevance",),
    "another quadrature of `attattr`": ("attattr_fast",),
    "a single equation or a loop over removals, transcribed": (
        "accuracy_difference",
        "attention_masking",
        "attention_x_input_norm",
        "gradient_x_input_l2",
        "max_attention",
        "smoothgrad",
    ),
    "a search for words, which departs from the published beam and scores no tokens": ("universal_trigger",),
    "scores made elsewhere, read from a file": ("importances", "scores"),
    "a control, which explains nothing": (
        "constant",
        "first_word",
        "frequency",
        "inverted",
        "last_word",
        "oracle",
        "position",
        "random",
        "random_components",
        "recency",
    ),
    "attention without the first token, which is this project's": ("sinkless_attention", "sinkless_rollout"),
    "nothing of it lies with the golden numbers; the authors' code (mt-upc/logit-explanations fadf415) gave the same scores "
    "of tokens and heads to 9e-6 of a tiny GPT-2 in float64, and to 5e-15 without the 1e-6 that its distance adds": (
        "alti_logit",
        "direct_logit_attribution",
    ),
    "the authors draw a graph and give tokens no score; transcribed": ("information_flow",),
    "scores of nodes and edges of the computation graph, which `tests/methods/test_circuits.py` holds to the authors' "
    "programs: of a tiny GPT-2 to 1e-10 (RelP to 2e-6: its program adds 1e-6 to what it divides by), of a Llama to 1e-5": (
        "activation_patching",
        "component_flow",
        "eap",
        "eap_clean_corrupted",
        "eap_ig",
        "eap_ig_activations",
        "relp",
    ),
}
"""Why a method is compared with no published number: the reason, and the methods it holds for."""
