"""The shapes of program that people write: what each script in ``shapes/`` does, for tests to go by.

Each script trains something small on made-up data, prints one line per optimizer step that starts with
"step ", its number and its loss, and prints the same bytes in every plain run. Notes tell of exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")


@dataclass(frozen=True)
class Shape:
    """A script and what is to be seen in it.

    ``steps``: optimizer steps in all, one line each; None where the lines do not tell. ``cycle``: optimizer
    steps after which (optimizer, forward passes with gradients, backward passes) repeats. ``batch_size``:
    samples per optimizer step, accumulated batches together; None where there is no such number.
    ``roots``: class names of the trained modules that are called at top level and no parts of each other, in
    the order of their first call with gradients. ``optimizers``: class names, in the order of their making.
    ``evaluations``: each evaluation of a closure is a step, with a line of its own. ``refused``: the class
    of hasten.errors that is to be met; "" where the script can be tuned.
    """

    name: str
    arguments: tuple[str, ...] = ()
    steps: int | None = None
    cycle: int = 1
    batch_size: int | None = None
    roots: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    refused: str = ""
    note: str = ""
    evaluations: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.py"


def shape(
    name: str,
    steps: int | None,
    batch_size: int | None,
    roots: str,
    optimizers: str,
    *,
    cycle: int = 1,
    refused: str = "",
    note: str = "",
    evaluations: bool = False,
) -> Shape:
    """A row of the table. ``roots`` and ``optimizers``: names with spaces between."""
    return Shape(
        name,
        steps=steps,
        cycle=cycle,
        batch_size=batch_size,
        roots=tuple(roots.split()),
        optimizers=tuple(optimizers.split()),
        refused=refused,
        note=note,
        evaluations=evaluations,
    )


# fmt: off
TUNABLE = (
    # ---- how the program is written
    shape("module_level", 160, 32, "Sequential", "SGD"),
    shape("with_argparse", 150, 64, "Sequential", "Adam", note="takes --steps and --lr"),
    shape("trainer_class", 150, 24, "Sequential", "Adam", note="validates under inference_mode each epoch"),
    shape("prints_shapes_first", 140, 20, "Sequential", "Adam",
          note="calls its layers, then the model, before there is an optimizer"),
    shape("forward_called_directly", 150, 32, "Net", "SGD", note="calls model.forward(x)"),
    shape("forward_of_parts", 150, 40, "Translator", "Adam",
          note="calls model.forward(x) and a part of it; evaluates with a stand-in for an optimizer"),
    shape("calls_itself", 140, 32, "SparseRegression", "Adam", note="has a __call__ of its own"),
    shape("forward_forward", 120, 200, "Layer Layer", "Adam Adam",
          note="two layers with an optimizer each, 60 steps one after the other; layer.forward(x) is called"),

    shape("transfer_learning", 160, 8, "Sequential", "SGD",
          note="set_grad_enabled by phase; the best weights are read back"),
    shape("dive_into", 125, 16, "Sequential", "SGD", note="a second forward pass a step, for its accuracy"),
    shape("callbacks", 147, 16, "Sequential Sequential", "SGD AdamW",
          note="a rate finder ends by an exception after 27 steps"),
    shape("folds_with_early_stopping", 184, 16, "Net Net Net", "Adam Adam Adam",
          note="three folds; each may end early"),

    # ---- optimizers and backward passes
    shape("gan_three_backwards", 160, 32, "Discriminator Generator", "Adam Adam", cycle=2,
          note="a line for each of the two optimizers; the discriminator gets 32 real and 32 made samples"),
    shape("gan_critic_steps", 150, 128, "Critic Generator", "RMSprop RMSprop", cycle=6,
          note="64 real and 64 made samples for the critic; the losses of a GAN need not go down"),
    shape("one_backward_two_optimizers", 160, 50, "Net", "SGD Adam", cycle=2,
          note="a line for each of the two optimizers, with the same loss: 80 backward passes"),
    shape("double_backward", 150, 32, "Energy", "Adam", note="autograd.grad(create_graph=True) comes first"),
    shape("gradient_penalty", 160, 64, "Sequential Critic", "Adam Adam", cycle=4,
          note="three steps of the critic, each differentiated twice, for one of the generator"),
    shape("physics_informed", 120, 32, "Net", "Adam", note="64 points inside, 32 at the beginning"),
    shape("score_matching", 150, 48, "Sequential", "Adam", note="backward runs through autograd.grad"),
    shape("maml", 120, 40, "Sequential", "Adam", note="four tasks a step, each with a step of its own"),
    shape("forces", 135, 16, "Potential", "Adam", note="the model calls autograd.grad in its forward pass"),
    shape("function_transforms", 120, 1, "Sequential", "Adam",
          note="vmap over grad: how many samples there are is not seen"),
    shape("per_sample_gradients", 130, None, "Net", "SGD",
          note="grad inside vmap; the model's parameters are exchanged for others while it is called"),
    shape("samples_its_proposals", 160, 16, "Detector", "SGD",
          note="a dictionary of losses; draws as many random numbers as there are positive scores"),
    shape("adversarial_training", 140, 24, "Sequential", "SGD", note="two backward passes a step"),
    shape("private_gradients", 140, 32, "Sequential", "PrivateSGD",
          note="hooks keep each sample's gradient at its parameter, clip it and add noise"),
    shape("neural_ode", 120, 20, "Func", "RMSprop",
          note="the solver makes a module around the model for each pass, and calls that 16 times a step"),
    shape("draws_negatives", 150, 24, "Factors", "Adam", note="draws other samples for each epoch"),
    shape("siamese", 160, 24, "SiameseNetwork", "Adadelta",
          note="learns nothing in bfloat16, where its sigmoid rounds to 1"),
    shape("closure_step", 150, 20, "Sequential", "SGD"),
    shape("lbfgs", 120, 200, "Sequential", "LBFGS",
          note="four forward and backward passes of the same 200 samples in each step"),
    shape("one_update", 150, 600, "Net", "LBFGS", evaluations=True,
          note="one step of the optimizer evaluates its closure 150 times: each evaluation counts as a step"),
    shape("style_transfer", 240, 1, "Sequential", "LBFGS", evaluations=True,
          note="as above, 12 times 20 evaluations"),
    shape("frozen_network", 120, 1, "Sequential", "LBFGS",
          note="trains a picture; what is called has no trained parameter"),
    shape("adversarial_delta", 140, 16, "Sequential", "SGD", note="what is trained is added to each picture"),
    shape("deep_dream", 120, 1, "Features", "", note="trains a picture, through a network that is frozen"),
    shape("steps_in_backward", 140, 24, "Sequential", "Adam Adam Adam Adam",
          note="a hook on each parameter steps its own optimizer"),
    shape("accumulation_with_remainder", 161, 32, "Sequential", "AdamW",
          note="four batches of 8 a step; each 23rd step, an epoch's last, has two"),
    shape("accumulation_without_loader", 120, 32, "Model", "AdamW",
          note="four batches of 8 a step, drawn by hand; the loss printed is that of the last"),
    shape("clipping", 160, 40, "Memory", "SGD"),
    shape("manual_updates", 150, 64, "Sequential", "", note="one line per backward pass"),
    shape("autograd_grad_with_optimizer", 150, 36, "Sequential", "Adam", note="backward() is never called"),
    shape("scheduler_per_step", 150, 32, "Sequential", "SGD"),
    shape("scheduler_per_epoch", 150, 32, "Net", "Adadelta"),
    shape("with_autocast", 150, 64, "Sequential", "AdamW"),
    shape("with_grad_scaler", 150, 32, "Sequential", "Adam",
          note="float16 autocast; begins at a scale that overflows in no step"),
    shape("with_fused", 150, 28, "Sequential", "Adam", note="fused=True"),
    shape("layer_wise_decay", 150, 16, "Deep", "AdamW",
          note="a parameter group for each of 300 parameters, with 26 sets of hyperparameters"),
    shape("raw_tensors", 150, None, "", "Adam", note="no module is called: nothing tells how many samples"),
    shape("sparse_embedding", 150, 50, "MatrixFactorization", "SparseAdam"),

    # ---- data
    shape("no_dataloader", 150, 16, "BigramLanguageModel", "AdamW"),
    shape("iterable_dataset", 140, 16, "Sequential", "Adam"),
    shape("custom_sampler", 150, 20, "Sequential", "SGD"),
    shape("batch_sampler", 135, 16, "Mean", "Adam", note="sequences of one length come together"),
    shape("custom_collate", 150, 16, "BagOfWords", "Adam", note="batches differ in their sequences' length"),
    shape("cycled_loaders", 150, 16, "TwoHeads Weighing", "Adam",
          note="two loaders side by side; after 25 steps of 50 one is replayed by itertools.cycle"),
    shape("nested_inputs", 160, 25, "Estimator", "Adam"),
    shape("dict_inputs", 120, 16, "Classifier", "AdamW"),
    shape("mixed_inputs", 160, 12, "TwoBranches", "Adam"),
    shape("loader_workers_fork", 160, 8, "Sequential", "Adam", note="samples are drawn anew in the workers"),
    shape("loader_workers_spawn", 130, 16, "Sequential", "SGD",
          note="the worker imports torch anew, which takes seconds"),

    shape("million_objects", 120, 20, "Sequential", "Adam",
          note="a million Python objects, and each step makes 20,000 more that it drops"),

    # ---- models
    shape("dict_output", 150, 30, "Model", "Adam"),
    shape("tuple_output", 150, 24, "VAE", "Adam"),
    shape("dataclass_output", 150, 48, "Net", "Adam"),
    shape("shared_parameters", 150, 40, "TiedLM", "AdamW"),
    shape("frozen_parameters", 160, 16, "Classifier", "SGD"),
    shape("several_models", 150, 64, "Polynomial Network Wave", "Adam Adam Adam",
          note="50 steps each, numbered on"),
    shape("cross_validation", 160, 20, " ".join(["Sequential"] * 5), " ".join(["Adam"] * 5),
          note="five folds of 32 steps, each with a new model, optimizer and loaders"),
    shape("learning_rate_finder", 200, 32, "Sequential", "SGD SGD",
          note="some 60 steps with growing rates, then the weights are put back"),
    shape("warmed_up_gan", 160, 32, "Generator Discriminator", "Adam Adam",
          note="60 steps of the generator, then 50 of each by turns"),
    shape("train_eval_switching", 160, 24, "Sequential", "Adam", note="validates every 20 steps"),
    shape("ema_deepcopy", 150, 32, "Regressor", "SGD"),
    shape("ema_in_the_model", 150, 28, "SelfTeaching", "AdamW", note="a GradScaler that is not enabled"),
    shape("checkpointing", 160, 20, "Sequential Sequential", "Adam Adam",
          note="after 80 steps writes checkpoint.pt to the working directory and reads it into a new model"),
    shape("large_checkpoints", 120, 16, "Sequential", "AdamW",
          note="writes 18 MB to the working directory at the end of each of 6 epochs, keeps two"),
    shape("with_compile", 150, 64, "OptimizedModule", "Adam",
          note='backend="eager" needs no compiler; importing dynamo takes seconds'),
    shape("multi_task", 150, 32, "MultiTask", "Adam", note="two forward passes of the same batch in a step"),
    shape("submodules_called", 150, 30, "Encoder Decoder", "Adam"),
    shape("custom_autograd_function", 150, 60, "BinaryNet", "Adam"),
    shape("word_language_model", 150, None, "RNNModel", "", note="sets one thread, as lstm; no optimizer"),
    shape("translation", 160, 16, "EncoderRNN AttnDecoderRNN", "Adam Adam", cycle=2,
          note="a line for each of the two optimizers; six calls of the decoder, of 16 words each"),
    shape("diffusion", 140, 32, "Denoiser", "AdamW", note="an average of the weights draws samples"),
    shape("vector_quantized", 160, 16, "VQVAE", "Adam"),
    shape("fast_style", 120, 8, "Vgg TransformerNet", "Adam", note="a frozen network is called in each step"),
    shape("windows_of_a_series", 160, 25, "Forecaster", "Adam",
          note="a data set of its own, whose samples are windows of one array"),
    shape("lstm", 128, 25, "Tagger", "Adam",
          note="sets one thread: with two, on a busy machine, it takes a minute"),
    shape("gru", 145, None, "Forecaster", "Adam",
          note="sets one thread, as lstm; inputs are (20, 16, 1): nobody tells which is time, which batch"),
    shape("padded_text", 150, 16, "Classifier", "AdamW"),
    shape("padded_tags", 150, 16, "Tagger", "Adam"),
    shape("packed_text", 150, 16, "LSTMClassifier", "Adam", note="sets one thread, as lstm"),
    shape("bucketed_text", 150, None, "RNN", "Adam", note="the time comes first: samples are not clear"),
    shape("text_cnn", 150, 16, "TextCNN", "Adam"),
    shape("graph_full_batch", 160, 200, "GCN", "Adam", note="the batch is one graph of 200 nodes"),
    shape("convolutional", 160, 16, "Net", "Adam", note="made so that every technique applies"),
    shape("batch_norm_dropout", 150, 20, "Sequential", "SGD"),
    shape("conv3d", 120, 8, "Sequential", "Adam"),
    shape("causal_language", 140, 12, "LanguageModel", "AdamW"),
    shape("transformer", 130, 16, "TransformerModel", "AdamW"),
    shape("reinforcement", 150, None, "Policy", "Adam",
          note="a forward pass per action, 7 to 40 in a step; the reward grows, the loss says nothing"),
    shape("actions_one_by_one", 120, 24, "ActorCritic", "Adam",
          note="24 forward passes of one state in a step"),
    shape("replay_memory", 150, 48, "Sequential Sequential", "AdamW",
          note="actions are chosen with gradients on, as many do; the batch is what is trained on"),

    # ---- where a run's time goes, besides steps: tests/scripts/test_runs.py
    shape("evaluates_most", 120, 32, "Sequential", "SGD", note="2560 samples are evaluated after each 640"),
    shape("evaluates_with_gradients", 150, 24, "Sequential", "Adam", note="eval() without no_grad()"),
    shape("short_epochs_with_workers", 120, 16, "Sequential", "Adam", note="workers start every ten steps"),
    shape("saves_each_epoch", 120, 20, "Sequential", "Adam", note="four files, and a fifth at its end"),
    shape("makes_many_objects", 150, 16, "Sequential", "SGD", note="dicts and lists by the thousand"),
    shape("forgets_eval", 144, 20, "Sequential", "Adam", note="no_grad() without eval(), and no loader"),
    shape("forgets_both", 140, 24, "Sequential", "Adam", note="neither eval() nor no_grad()"),
    shape("evaluates_average", 150, 16, "Sequential", "AdamW", note="what is evaluated is not trained"),
    shape("distillation", 140, 32, "Sequential Sequential", "SGD SGD",
          note="60 steps of a teacher, then 80 of its student"),
    shape("perceptual_loss", 120, 8, "Sequential Features", "Adam",
          note="what is made is compared through a frozen network, whose mode is never changed"),
    shape("lazy_layers", 120, 8, "Sequential", "SGD",
          note="layers that find out their sizes, of two models: one is only looked at"),
    shape("latent_diffusion", 120, 8, "Conv2d Down Down Conv2d Denoiser", "AdamW",
          note="a frozen autoencoder's layers are called by a method of its own, before the model"),
    shape("target_network", 150, 32, "Sequential", "Adam", note="a copy is called in each step, undetached"),
    shape("validates_within_epochs", 160, 24, "Sequential", "AdamW",
          note="two batches before it trains, then all every ten steps"),

    # ---- processes and threads
    shape("ddp_torchrun", 160, 30, "Sequential", "SGD",
          note="as one process; under torchrun each of n ranks takes 160/n steps and the first one prints"),
    shape("data_parallel", 150, 30, "DataParallel", "Adam"),
    shape("sets_omp_threads", 140, 64, "Sequential", "Adam", note='first prints "threads 1"'),
    shape("sets_affinity", 150, 50, "Sequential", "SGD"),
    shape("sets_num_threads", 160, 32, "Linear", "SGD"),

    # ---- output and length
    shape("terminal_size", 120, 32, "Sequential", "Adam",
          note="first prints the terminal's size; a progress bar goes to stderr"),
    shape("prints_100_mb", 60, 200, "Sequential", "Adam"),
    shape("very_short_steps", None, 8, "Linear", "SGD", note="1500 steps, each hundredth has a line"),
    shape("long_steps", 40, 4, "Linear", "SGD", note="20 s a step; --seconds changes that"),
    shape("forty_steps", 40, 16, "Sequential", "Adam"),
    shape("ends_in_main", 25, 40, "Sequential", "AdamW", note="25 steps, after which nothing of it is left"),
)

REFUSED = (
    shape("scripted_root", 130, 32, "RecursiveScriptModule", "Adam", refused="Refusal"),
    shape("trains_in_children", 130, 32, "Sequential", "Adam", refused="Refusal",
          note="all in a spawned child; its parent neither trains nor prints"),
    shape("five_steps", 5, 50, "Linear", "SGD", refused="Refusal", note="too few steps to see anything"),
    shape("asks_for_cuda", None, 32, "Sequential", "Adam", refused="ScriptError",
          note="raises before its first step where there is no GPU; with one it takes 120 steps"),
    shape("needs_rank", 120, 32, "Linear", "SGD", refused="ScriptError",
          note="alone it raises at once; in ranks it takes 120 steps"),
    shape("functional_call", 150, 40, "Net", "", refused="Refusal",
          note="torch.func gives the gradients: no optimizer, no backward pass; hasten.step() would tell"),
    shape("never_trains", 0, 50, "", "", refused="Refusal", note="20 forward passes without gradients"),
    shape("hangs", 3, 16, "Linear", "SGD", refused="WorkerError", note="sleeps without end after 3 steps"),
    shape("killed", 3, 16, "Linear", "SGD", refused="WorkerError", note="SIGKILL after 3 steps"),
    shape("raises", 2, 16, "Linear", "SGD", refused="ScriptError",
          note="a ValueError while the third batch is read"),
)
# fmt: on

SHAPES = TUNABLE + REFUSED
