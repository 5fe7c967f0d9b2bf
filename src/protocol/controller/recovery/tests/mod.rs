mod histories;
mod rules;
mod scene;
