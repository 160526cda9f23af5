"""Actor and critic in one model: a forward pass for each of 24 actions, then one step for all of them."""

import torch
from torch import nn

MOVES = 24


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 32)
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return torch.softmax(self.actor(x), dim=-1), self.critic(x)


torch.manual_seed(0)
model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(1, 121):
    state, saved = torch.randn(3), []
    for _ in range(MOVES):
        chances, value = model(state.unsqueeze(0))
        action = torch.multinomial(chances.detach(), 1).item()
        reward = float((state[0] > 0) == bool(action))
        saved.append((chances[0, action].log(), value[0, 0], reward))
        state = torch.randn(3)
    gains = [-chance * (reward - value.item()) for chance, value, reward in saved]
    errors = [(value - reward) ** 2 for _, value, reward in saved]
    loss = torch.stack(gains).sum() + torch.stack(errors).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
