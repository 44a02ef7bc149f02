"""What is kept between turns, and for how long: budgets, stored responses and their copies in Redis, known content."""
